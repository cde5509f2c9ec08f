// Writes down every kernel that a process runs, whatever language it is written in:
//
//     g++ -O2 -shared -fPIC -I CUDA/include record_kernels.cpp -o record_kernels.so -L CUDA/lib -l:libcupti.so.13
//     CUDA_INJECTION64_PATH=$PWD/record_kernels.so TORCHGAUGE_KERNELS=FILE program
//
// CUDA/include and CUDA/lib are those of NVIDIA's packages nvidia-cuda-cupti, nvidia-cuda-runtime
// and nvidia-cuda-crt. The CUDA driver loads the library. A line of FILE is
// `begin<TAB>end<TAB>name`, in nanoseconds of CUPTI's clock; copies and fills are named `[copy]` and
// `[fill]`. What has completed is written every tenth of a second, since a process may end without
// its exit handlers; `compare_kernels.py` reads whole steps.

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <initializer_list>
#include <thread>

#include <cupti.h>

namespace {

constexpr size_t BUFFER_BYTES = 4 << 20;
std::FILE *out = nullptr;

void check(CUptiResult result, const char *what) {
  if (result == CUPTI_SUCCESS) return;
  const char *text = "unknown error";
  cuptiGetResultString(result, &text);
  std::fprintf(stderr, "kernels: %s: %s\n", what, text);
  std::exit(2);
}

void line(uint64_t begin, uint64_t end, const char *name) {
  std::fprintf(out, "%llu\t%llu\t%s\n", static_cast<unsigned long long>(begin),
               static_cast<unsigned long long>(end), name);
}

void CUPTIAPI give_buffer(uint8_t **buffer, size_t *size, size_t *records) {
  *buffer = static_cast<uint8_t *>(std::aligned_alloc(8, BUFFER_BYTES));
  *size = BUFFER_BYTES;
  *records = 0;
}

void CUPTIAPI take_buffer(CUcontext, uint32_t, uint8_t *buffer, size_t, size_t valid) {
  CUpti_Activity *record = nullptr;
  while (cuptiActivityGetNextRecord(buffer, valid, &record) == CUPTI_SUCCESS) {
    switch (record->kind) {
      case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL: {
        auto *kernel = reinterpret_cast<CUpti_ActivityKernel10 *>(record);
        line(kernel->start, kernel->end, kernel->name);
        break;
      }
      case CUPTI_ACTIVITY_KIND_MEMCPY: {
        auto *copy = reinterpret_cast<CUpti_ActivityMemcpy6 *>(record);
        line(copy->start, copy->end, "[copy]");
        break;
      }
      case CUPTI_ACTIVITY_KIND_MEMSET: {
        auto *fill = reinterpret_cast<CUpti_ActivityMemset4 *>(record);
        line(fill->start, fill->end, "[fill]");
        break;
      }
      default:
        break;
    }
  }
  std::fflush(out);
  std::free(buffer);
}

void flush_for_ever() {
  for (;;) {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    cuptiActivityFlushAll(0);
  }
}

}  // namespace

extern "C" int InitializeInjection() {
  const char *path = std::getenv("TORCHGAUGE_KERNELS");
  if (path == nullptr || (out = std::fopen(path, "w")) == nullptr) {
    std::fprintf(stderr, "kernels: TORCHGAUGE_KERNELS must name a file that can be written\n");
    std::exit(2);
  }
  check(cuptiActivityRegisterCallbacks(give_buffer, take_buffer), "registering");
  for (auto kind : {CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, CUPTI_ACTIVITY_KIND_MEMCPY,
                    CUPTI_ACTIVITY_KIND_MEMSET}) {
    check(cuptiActivityEnable(kind), "enabling");
  }
  std::thread(flush_for_ever).detach();
  return 1;
}
