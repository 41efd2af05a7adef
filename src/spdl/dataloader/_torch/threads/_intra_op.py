"""Threads that torch uses inside one operation: one, in each thread that loads. Imports nothing of ours."""

import threading

__all__ = ["IntraOpLimit"]


class IntraOpLimit(threading.local):
    """Says of each thread whether torch was told to use no other in it.

    Else each of ``n`` threads would have a team of its own, of as many threads as there are CPUs, for every large copy:
    ``n`` times too many. Worker processes of torch's loader are limited in the same way.

    ``torch.set_num_threads`` sets the calling thread's number and also that of threads that have not asked yet, the
    user's among them; so the latter is set again, by a thread that is made for it.
    """

    _is_known = False

    def apply(self) -> None:
        """Limit the calling thread; nothing happens the next time."""
        if self._is_known:
            return
        self._is_known = True
        import torch

        num_threads = torch.get_num_threads()
        if num_threads > 1:
            torch.set_num_threads(1)
            restore = threading.Thread(target=torch.set_num_threads, args=(num_threads,), name="spdl-restore")
            restore.start()
            restore.join()

    @staticmethod
    def spare() -> None:
        """Have the calling thread keep its number, whatever is set in others meanwhile."""
        import torch

        torch.get_num_threads()
