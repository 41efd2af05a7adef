// Parks a thread that Python ends while the thread is in this library's code.
//
// Before 3.14 a daemon thread that takes the GIL, or waits for it, once the interpreter is finalized is ended by
// pthread_exit. With glibc that unwinds the thread's stack, and C++ frames cannot survive it: destructors are noexcept,
// so std::terminate ends the process instead of exit(); destructors that run would drop references without the GIL; and
// threads that work for the call would find its variables gone. Every call to Python that runs user code can lose the
// GIL, not only code here that releases it, so guards would be needed in nanobind as well.
//
// Instead, the thread stays where it is: the unwinder calls the personality routine of each frame, from the innermost
// on, and the one for the frames of this library (`-Wl,--wrap`, see CMakeLists.txt) never returns when the unwinding is
// forced. The thread ends with the process. Python 3.14 does the same to all threads (PyThread_hang_thread, CPython
// issue 87135). Other C libraries end a thread without unwinding it.
//
// Sources: Itanium C++ ABI, "Exception Handling", 1.6.2.1 and 2.5; glibc's nptl/unwind.c.

#include <unistd.h>
#include <unwind.h>

extern "C" {

_Unwind_Reason_Code __real___gxx_personality_v0(int version, _Unwind_Action actions, _Unwind_Exception_Class kind,
                                                _Unwind_Exception* exception, _Unwind_Context* context);

_Unwind_Reason_Code __wrap___gxx_personality_v0(int version, _Unwind_Action actions, _Unwind_Exception_Class kind,
                                                _Unwind_Exception* exception, _Unwind_Context* context) {
  while ((actions & _UA_FORCE_UNWIND) != 0) {
    ::pause();
  }
  return __real___gxx_personality_v0(version, actions, kind, exception, context);
}

}  // extern "C"
