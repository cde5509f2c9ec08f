// What newer C and C++ libraries have added or moved, as older ones have it: the workload is to
// start where PyTorch's wheels do, on glibc 2.28 and the libstdc++ of GCC 8 (manylinux_2_28),
// whatever system it was compiled on. All of it is hidden: libraries find their own. libpthread and
// libdl, where they are libraries of their own, come with libtorch.
//
// `scenarios/tests/it/older.rs` reads what the workload asks for. What is newer there goes here.

#include <ios>
#include <string>

// Before GCC 13, whoever wants standard streams has them set up.
static std::ios_base::Init streams;

#if _GLIBCXX_RELEASE >= 13 && _GLIBCXX_USE_CXX11_ABI
template void std::string::_M_replace_cold(char*, size_t, const char*, size_t, size_t);
asm(".hidden _ZNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEE15_M_replace_coldEPcmPKcmm");
#endif

// From 2.34 on glibc finds a program's constructors itself and is given none; before, it runs what
// it is given. Newer ones still run what a program gives.
extern "C" {
using Main = int (*)(int, char**, char**);
using Constructor = void (*)(int, char**, char**);
extern Constructor __init_array_start[] __attribute__((visibility("hidden")));
extern Constructor __init_array_end[] __attribute__((visibility("hidden")));
void _init();

int torchgauge_old_start(Main, int, char**, Constructor, void (*)(), void (*)(), void*);
asm(".symver torchgauge_old_start, __libc_start_main@GLIBC_2.2.5");

static void construct(int argc, char** argv, char** environment) {
  _init();
  for (Constructor* one = __init_array_start; one != __init_array_end; ++one) {
    (*one)(argc, argv, environment);
  }
}

__attribute__((visibility("hidden"))) int __libc_start_main(Main main, int argc, char** argv,
                                                            Constructor init, void (*fini)(),
                                                            void (*loader_fini)(), void* stack) {
  return torchgauge_old_start(main, argc, argv, init ? init : construct, fini, loader_fini, stack);
}
}

asm(R"(
.macro begin name
  .pushsection .text.\name, "ax", @progbits
  .globl \name
  .hidden \name
  .type \name, @function
\name:
.endm

# The same function under its older version.
.macro older name, version=GLIBC_2.2.5
  .symver torchgauge_old_\name, \name@\version
  begin \name
  jmp *torchgauge_old_\name@GOTPCREL(%rip)
  .popsection
.endm

# A function that does what a newer one does.
.macro alike name, other
  begin \name
  jmp *\other@GOTPCREL(%rip)
  .popsection
.endm

# The older function is told first which layout to fill in.
.macro status name, other
  .symver torchgauge_old_\other, \other@GLIBC_2.2.5
  begin \name
  mov %rsi, %rdx
  mov %rdi, %rsi
  mov $1, %edi
  jmp *torchgauge_old_\other@GOTPCREL(%rip)
  .popsection
.endm

# A stream's constructor without arguments: the one that takes a mode.
.macro stream name, mode
  begin \name\()C1Ev
  mov $\mode, %esi
  jmp *\name\()C1ESt13_Ios_Openmode@GOTPCREL(%rip)
  .popsection
.endm

# glibc 2.34: what libpthread and libdl had. 2.32: pthread_getattr_np. 2.29: exp, log and pow.
.irp name, dlclose, dlerror, dlopen, dlsym
  older \name
.endr
.irp name, attr_getguardsize, attr_getstack, attr_setstacksize, create, detach, getattr_np, join
  older pthread_\name
.endr
.irp name, key_create, key_delete, once, setspecific
  older pthread_\name
.endr
older pthread_setname_np, GLIBC_2.12
.irp name, exp, log, pow
  older \name
.endr

# 2.33
status fstat64, __fxstat64
status lstat64, __lxstat64
status stat64, __xstat64

# 2.30
begin gettid
  mov $186, %eax
  syscall
  ret
  .popsection

# 2.32: whether counts may do without atomic operations, which libtorch's threads forbid.
  .pushsection .bss.__libc_single_threaded, "aw", @nobits
  .globl __libc_single_threaded
  .hidden __libc_single_threaded
  .type __libc_single_threaded, @object
  .size __libc_single_threaded, 1
__libc_single_threaded:
  .zero 1
  .popsection

# 2.29, 2.39 and newer: Rust's library does without where these are null. Hidden, they are found
# nowhere.
.macro without name
  .weak \name
  .hidden \name
  .pushsection .data.rel.ro.\name, "aw", @progbits
  .quad \name
  .popsection
.endm
without pidfd_getpid
without pidfd_spawnp
without posix_spawn_file_actions_addchdir
without posix_spawn_file_actions_addchdir_np

# 2.38: numbers in binary may begin with 0b.
.irp name, strtol, strtoll, strtoul, strtoull
  alike __isoc23_\name, \name
.endr

# GCC 9
stream _ZNSt7__cxx1119basic_ostringstreamIcSt11char_traitsIcESaIcEE, 16
stream _ZNSt19basic_ostringstreamIcSt11char_traitsIcESaIcEE, 16
# GCC 11; the first in C++20
alike _ZNKRSt7__cxx1115basic_stringbufIcSt11char_traitsIcESaIcEE3strEv, _ZNKSt7__cxx1115basic_stringbufIcSt11char_traitsIcESaIcEE3strEv
alike _ZSt28__throw_bad_array_new_lengthv, __cxa_throw_bad_array_new_length
# By version, for those that a compiler puts into the program call these.
  .symver torchgauge_old_copied, _ZNSt15__exception_ptr13exception_ptrC1ERKS0_@CXXABI_1.3.3
  .symver torchgauge_old_destroyed, _ZNSt15__exception_ptr13exception_ptrD1Ev@CXXABI_1.3.3
alike _ZNSt15__exception_ptr13exception_ptr10_M_releaseEv, torchgauge_old_destroyed
# To count one more, a copy that is never destroyed.
begin _ZNSt15__exception_ptr13exception_ptr9_M_addrefEv
  sub $24, %rsp
  mov %rdi, %rsi
  lea 8(%rsp), %rdi
  call *torchgauge_old_copied@GOTPCREL(%rip)
  add $24, %rsp
  ret
  .popsection
# GCC 13: never called. Who names it has no `streams` of their own.
begin _ZSt21ios_base_library_initv
  ret
  .popsection
# GCC 14
begin __cxa_call_terminate
  sub $8, %rsp
  call *__cxa_begin_catch@GOTPCREL(%rip)
  call *_ZSt9terminatev@GOTPCREL(%rip)
  .popsection
)");
