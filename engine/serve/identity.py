"""Who a client is: the SDK reads it from a JSON Web Token (RFC 7519) that it gets for its key.

The engine knows one user. The token is signed with the engine's key (HS256), so that an engine started again with the
same key goes on taking it.
"""

import base64
import hashlib
import hmac
import json
import time

USER, ORGANISATION = "tml:organization_user:local", "local"
TOKEN_SECONDS = 30 * 86_400.0
"""How long a token is taken. The SDK asks for another one after half of that."""


def new_token(key: str) -> str:
    """A token for a client that has shown the engine's key."""
    issued = time.time()
    who = {"iss": "scisci-gym", "sub": USER, "org_id": ORGANISATION, "email": ""}
    claims = {**who, "iat": issued, "exp": issued + TOKEN_SECONDS}
    body = f"{_encoded({'alg': 'HS256', 'typ': 'JWT'})}.{_encoded(claims)}"
    return f"{body}.{_signature(key, body)}"


def is_token(key: str, text: str) -> bool:
    """Whether `text` is a token of the engine with this key that has not expired."""
    body, _, signature = text.rpartition(".")
    if not hmac.compare_digest(_signature(key, body).encode(), signature.encode()):
        return False
    payload = body.partition(".")[2]
    return json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))["exp"] > time.time()


def _encoded(data: dict[str, object]) -> str:
    return _text(json.dumps(data).encode())


def _signature(key: str, body: str) -> str:
    return _text(hmac.new(key.encode(), body.encode(), hashlib.sha256).digest())


def _text(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()
