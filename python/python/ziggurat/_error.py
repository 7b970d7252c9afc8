"""What the store says when a call fails."""


class Error(Exception):
    """A failed call: a stable code, its name, and what happened. docs/errors.md has cause and cure of each code."""

    def __init__(self, code: int, name: str, message: str) -> None:
        super().__init__(code, name, message)
        self.code = code
        self.name = name
        self.message = message

    def __str__(self) -> str:
        return f"{self.message} ({self.name} {self.code})"
