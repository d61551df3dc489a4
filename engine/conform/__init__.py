"""Does a server speak Tinker's protocol? Checks over HTTP, for this engine and for any other server."""
