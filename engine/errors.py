"""The exception whose message is sent to clients: what was wrong with the request, the value, and the remedy."""

from typing import Literal

Category = Literal["user", "server"]


class RequestError(Exception):
    """A request that cannot be served.

    Parameters
    ----------
    message
        Names the field, the value and what to do instead; it is sent to the client as it stands.
    status
        HTTP status when the request is refused at once. Errors found later travel inside the future.
    category
        Tinker's own categories: ``user`` for a bad request, ``server`` for a fault of the engine.
    """

    def __init__(self, message: str, status: int = 400, category: Category = "user") -> None:
        super().__init__(message)
        self.status = status
        self.category: Category = category
