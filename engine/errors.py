"""The exception whose message is sent to clients: what was wrong with the request, the value, and the remedy."""


class RequestError(Exception):
    """A request that is refused for what it asks (Tinker's category ``user``); other exceptions are the engine's fault.

    Parameters
    ----------
    message
        Names the field, the value and what to do instead; it is sent to the client as it stands.
    status
        HTTP status when the request is refused at once. Errors found later travel inside the future.
    """

    def __init__(self, message: str, status: int = 400) -> None:
        super().__init__(message)
        self.status = status
