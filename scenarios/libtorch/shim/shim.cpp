// What every build has of libtorch, as one translation unit: of the time to compile a part, most
// goes to its headers. Names in their unnamed namespaces meet here, so each is there once.
#include "attribution.cpp"
#include "autocast.cpp"
#include "autograd.cpp"
#include "checkpoint.cpp"
#include "context.cpp"
#include "distributed.cpp"
#include "fp8.cpp"
#include "host_memory.cpp"
#include "keep.cpp"
#include "mover.cpp"
#include "optim.cpp"
#include "profiler.cpp"
