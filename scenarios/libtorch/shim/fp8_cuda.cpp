// The kernel that casts a matrix to FP8 with its scales, as it is and transposed, in one pass; NVRTC
// compiles it for the GPU that is there, for a build has no nvcc.
#include "fp8.h"

#include <ATen/ops/empty.h>
#include <c10/cuda/CUDAStream.h>

#include <dlfcn.h>

#include <string>
#include <vector>

namespace at::cuda {
TORCH_CUDA_CPP_API cudaDeviceProp* getDeviceProperties(c10::DeviceIndex device);
} // namespace at::cuda

namespace {

// A block of 256 threads takes a tile of 64 × 64 values: a thread reads and writes four that lie
// beside each other, four times. The instructions saturate, and take two values at once.
constexpr int64_t kTile = 64;
constexpr const char* kSource = R"(
__device__ float half(unsigned bits, int type) {
  if (type == 2) {
    return __uint_as_float(bits << 16);
  }
  float value;
  asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(static_cast<unsigned short>(bits)));
  return value;
}

__device__ void read(const void* from, int type, long long at, float* four) {
  if (type == 0) {
    const float4 all = *reinterpret_cast<const float4*>(static_cast<const float*>(from) + at);
    four[0] = all.x, four[1] = all.y, four[2] = all.z, four[3] = all.w;
    return;
  }
  const uint2 all = *reinterpret_cast<const uint2*>(static_cast<const unsigned short*>(from) + at);
  four[0] = half(all.x & 0xffff, type), four[1] = half(all.x >> 16, type);
  four[2] = half(all.y & 0xffff, type), four[3] = half(all.y >> 16, type);
}

__device__ unsigned pair(float low, float high, int is_e5m2) {
  unsigned short both;
  if (is_e5m2) {
    asm("cvt.rn.satfinite.e5m2x2.f32 %0, %1, %2;" : "=h"(both) : "f"(high), "f"(low));
  } else {
    asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(both) : "f"(high), "f"(low));
  }
  return both;
}

__device__ void write(unsigned char* to, long long at, const float* four, float by, int is_e5m2) {
  const unsigned low = pair(four[0] * by, four[1] * by, is_e5m2);
  const unsigned high = pair(four[2] * by, four[3] * by, is_e5m2);
  *reinterpret_cast<unsigned*>(to + at) = low | high << 16;
}

extern "C" __global__ void cast(
    const void* matrix, int type, long long rows, long long filled, long long columns,
    const float* of_rows, const float* of_columns, int each, float limit, float least, int is_e5m2,
    unsigned char* straight, float* row_scales, unsigned char* turned, float* column_scales) {
  __shared__ float tile[64][65];
  const long long first_row = blockIdx.x * 64LL, first_column = blockIdx.y * 64LL;
  const int fast = threadIdx.x % 16 * 4, slow = threadIdx.x / 16;
  for (int pass = slow; pass < 64; pass += 16) {
    const long long row = first_row + pass, column = first_column + fast;
    float four[4] = {0, 0, 0, 0};
    if (row < rows && column < columns) {
      read(matrix, type, row * columns + column, four);
    }
    for (int i = 0; i < 4; ++i) {
      tile[pass][fast + i] = four[i];
    }
    if (straight && row < filled && column < columns) {
      const float most = fmaxf(of_rows[each ? min(row, rows - 1) : 0], least);
      write(straight, row * columns + column, four, limit / most, is_e5m2);
      if (column == 0) {
        row_scales[each ? row : 0] = most / limit;
      }
    }
  }
  if (!turned) {
    return;
  }
  __syncthreads();
  for (int pass = slow; pass < 64; pass += 16) {
    const long long column = first_column + pass, row = first_row + fast;
    if (column < columns && row < filled) {
      float four[4];
      for (int i = 0; i < 4; ++i) {
        four[i] = tile[fast + i][pass];
      }
      const float most = fmaxf(of_columns[each ? column : 0], least);
      write(turned, column * filled + row, four, limit / most, is_e5m2);
      if (row == 0) {
        column_scales[each ? column : 0] = most / limit;
      }
    }
  }
}
)";

// The functions of NVRTC and of the driver that are used. NVRTC is reached as libtorch itself does,
// under whichever name this version of CUDA has it. 0 is success everywhere.
void* symbol(const char* name) {
  for (const char* library : {"libcaffe2_nvrtc.so", "libcuda.so.1"}) {
    void* const opened = dlopen(library, RTLD_NOW | RTLD_LOCAL);
    void* const found = opened == nullptr ? nullptr : dlsym(opened, name);
    if (found != nullptr) {
      return found;
    }
  }
  TORCH_CHECK(false, "FP8 needs NVRTC and the driver to compile a kernel: ", dlerror());
}

template <typename... Arguments>
int call(void* function, Arguments... arguments) {
  return reinterpret_cast<int (*)(Arguments...)>(function)(arguments...);
}

void check(const char* name, int code) {
  TORCH_CHECK(code == 0, "the FP8 kernel: ", name, " failed with code ", code);
}

template <typename... Arguments>
void must(const char* name, Arguments... arguments) {
  check(name, call(symbol(name), arguments...));
}

// A function of the driver's.
void* compile() {
  void* program = nullptr;
  void* const none = nullptr;
  must("nvrtcCreateProgram", &program, kSource, "fp8.cu", 0, none, none);
  const cudaDeviceProp* gpu = at::cuda::getDeviceProperties(c10::cuda::current_device());
  const std::string architecture =
      "--gpu-architecture=sm_" + std::to_string(gpu->major) + std::to_string(gpu->minor);
  const char* options[] = {architecture.c_str()};
  if (call(symbol("nvrtcCompileProgram"), program, 1, &options[0]) != 0) {
    size_t length = 0;
    must("nvrtcGetProgramLogSize", program, &length);
    std::string log(length, ' ');
    must("nvrtcGetProgramLog", program, log.data());
    TORCH_CHECK(false, "NVRTC cannot compile the FP8 kernel for ", architecture, ": ", log);
  }
  size_t length = 0;
  must("nvrtcGetCUBINSize", program, &length);
  std::vector<char> code(length);
  must("nvrtcGetCUBIN", program, code.data());
  must("nvrtcDestroyProgram", &program);
  void *loaded = nullptr, *function = nullptr;
  must("cuModuleLoadData", &loaded, static_cast<const void*>(code.data()));
  must("cuModuleGetFunction", &function, loaded, "cast");
  return function;
}

int number_of(at::ScalarType type) {
  switch (type) {
    case at::kFloat:
      return 0;
    case at::kHalf:
      return 1;
    case at::kBFloat16:
      return 2;
    default:
      TORCH_CHECK(false, "FP8 is cast of float, half and bfloat16, got ", type);
  }
}

unsigned tiles(int64_t length) {
  return static_cast<unsigned>((length + kTile - 1) / kTile);
}

} // namespace

torchgauge::fp8::Cast torchgauge::fp8::cast_on_gpu(
    const at::Tensor& contiguous,
    const at::Tensor& largest_of_rows,
    const at::Tensor& largest_of_columns,
    double limit,
    at::ScalarType type,
    Wanted wanted) {
  static void* const kernel = compile();
  // Four values are read at once.
  const bool is_aligned = reinterpret_cast<uintptr_t>(contiguous.data_ptr()) % 16 == 0;
  const at::Tensor matrix = is_aligned ? contiguous : contiguous.clone();
  int64_t rows = matrix.size(0), columns = matrix.size(1);
  int64_t filled = (rows + kMultiple - 1) / kMultiple * kMultiple;
  const bool is_each = (wanted.rows ? largest_of_rows : largest_of_columns).dim() > 0;
  const auto values = matrix.options().dtype(type), scales = matrix.options().dtype(at::kFloat);
  const auto scale = [&](int64_t count) {
    return is_each ? at::empty({count, 1}, scales) : at::empty({}, scales);
  };
  Cast made;
  if (wanted.rows) {
    made.rows = {at::empty({filled, columns}, values), scale(filled)};
  }
  if (wanted.columns) {
    made.columns = {at::empty({columns, filled}, values), scale(columns)};
  }
  const auto address = [](const at::Tensor& tensor) {
    return tensor.defined() ? tensor.data_ptr() : nullptr;
  };
  void *from = address(matrix), *of_rows = address(largest_of_rows),
       *of_columns = address(largest_of_columns), *straight = address(made.rows.values),
       *row_scales = address(made.rows.scale), *turned = address(made.columns.values),
       *column_scales = address(made.columns.scale);
  int read = number_of(matrix.scalar_type()), each = is_each, is_e5m2 = type == at::kFloat8_e5m2;
  auto most = static_cast<float>(limit), least = static_cast<float>(kLeast);
  void* arguments[] = {
      &from, &read, &rows, &filled, &columns, &of_rows, &of_columns, &each, &most, &least, &is_e5m2,
      &straight, &row_scales, &turned, &column_scales};
  static void* const launch = symbol("cuLaunchKernel");
  void* const stream = c10::cuda::getCurrentCUDAStream().stream();
  void** const none = nullptr;
  const int code = call(
      launch, kernel, tiles(filled), tiles(columns), 1U, 256U, 1U, 1U, 0U, stream, &arguments[0], none);
  check("cuLaunchKernel", code);
  return made;
}
