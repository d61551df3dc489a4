"""The exception whose message is sent to clients: what was wrong with the request, the value, and the remedy."""


class RequestError(Exception):
    """A request that is refused for what it asks (Tinker's category ``user``); other exceptions are the engine's fault.

    The message is sent to the client as it stands. `status` is the HTTP status of a request that is refused at once;
    errors found later travel inside the future.
    """

    def __init__(self, message: str, status: int = 400) -> None:
        super().__init__(message)
        self.status = status
