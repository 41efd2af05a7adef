"""Limit torch to one thread per operation in each loading thread. Imports nothing from spdl."""

import threading


class IntraOpLimit(threading.local):
    """Limit torch in the calling thread, once per thread.

    Without the limit, each of ``n`` loading threads would use as many threads as there are CPUs for every large copy:
    ``n`` times too many. Worker processes of torch's loader are limited in the same way.

    ``torch.set_num_threads`` sets the number for the calling thread and the default for threads that have not used
    theirs yet, the user's included. So a temporary thread restores that default.
    """

    _is_known = False

    def apply(self) -> None:
        """Limit the calling thread. Further calls do nothing."""
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
    def keep_current() -> None:
        """Make the calling thread keep its number of threads, even if ``apply`` is called in others."""
        import torch

        torch.get_num_threads()
