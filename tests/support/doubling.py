"""An op in every shape that a class can give it."""

__all__ = ["Doubler"]


class Doubler:
    def __call__(self, item: int) -> int:
        return 2 * item

    def method(self, item: int) -> int:
        return 2 * item

    @classmethod
    def of_class(cls, item: int) -> int:
        return 2 * item

    @staticmethod
    def static(item: int) -> int:
        return 2 * item

    async def method_async(self, item: int) -> int:
        return 2 * item
