/* Writes down every large block that libtorch takes from its CPU allocator and gives back,
 * and which functions did so: whether two programs hold their tensors for as long.
 *
 *     gcc -shared -fPIC -O1 -o record_allocations.so scenarios/parity/record_allocations.c -ldl
 *     ALLOCATIONS_LOG=FILE LD_PRELOAD=./record_allocations.so PROGRAM…
 *
 * A line each: `+ ADDRESS BYTES FUNCTION…` and `- ADDRESS BYTES FUNCTION…`. The functions are those with a name in
 * a symbol table, innermost first. Blocks under LARGE_BYTES are left out. Unlike a GPU's
 * allocator this one has no cache, so nothing but the program decides what is taken when.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <execinfo.h>
#include <malloc.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FRAMES_MAX 64
#define LARGE_BYTES ((size_t)192 << 10)
#define LIVE_MAX 65536

static FILE *record;
static int (*real_posix_memalign)(void **, size_t, size_t);
static void (*real_free)(void *);
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct {
  void *block;
  size_t bytes;
} live[LIVE_MAX];
static size_t live_count;
/* What is taken and given back while a line is written is not the program's. */
static __thread int writing;

__attribute__((constructor)) static void set_up(void) {
  if (real_free != NULL) {
    return;
  }
  real_posix_memalign = (int (*)(void **, size_t, size_t))dlsym(RTLD_NEXT, "posix_memalign");
  real_free = (void (*)(void *))dlsym(RTLD_NEXT, "free");
}

static void open_record(void) {
  const char *path = getenv("ALLOCATIONS_LOG");
  if (path == NULL || (record = fopen(path, "w")) == NULL) {
    fprintf(stderr, "record_allocations: ALLOCATIONS_LOG has to name a file that can be written\n");
    abort();
  }
  /* A program may leave without flushing. */
  setvbuf(record, NULL, _IOLBF, 0);
}

/* With the lock held. Whether libtorch's allocator is among the callers, where that matters. */
static int write_line(char sign, void *block, size_t bytes, int only_libtorch) {
  void *frames[FRAMES_MAX];
  const int count = backtrace(frames, FRAMES_MAX);
  Dl_info symbols[FRAMES_MAX];
  int named = 0;
  int by_libtorch = 0;
  for (int i = 2; i < count; ++i) {
    if (dladdr(frames[i], &symbols[named]) != 0 && symbols[named].dli_sname != NULL) {
      by_libtorch |= strstr(symbols[named].dli_sname, "alloc_cpu") != NULL;
      ++named;
    }
  }
  if (only_libtorch && !by_libtorch) {
    return 0;
  }
  if (record == NULL) {
    open_record();
  }
  fprintf(record, "%c %p %zu", sign, block, bytes);
  for (int i = 0; i < named; ++i) {
    fprintf(record, " %s", symbols[i].dli_sname);
  }
  fputc('\n', record);
  return 1;
}

int posix_memalign(void **block, size_t alignment, size_t bytes) {
  set_up();
  const int result = real_posix_memalign(block, alignment, bytes);
  if (result != 0 || bytes < LARGE_BYTES || writing) {
    return result;
  }
  writing = 1;
  pthread_mutex_lock(&lock);
  if (live_count == LIVE_MAX) {
    fprintf(stderr, "record_allocations: more than %d large blocks at once\n", LIVE_MAX);
    abort();
  }
  if (write_line('+', *block, bytes, 1)) {
    live[live_count].block = *block;
    live[live_count].bytes = bytes;
    ++live_count;
  }
  pthread_mutex_unlock(&lock);
  writing = 0;
  return result;
}

void free(void *block) {
  set_up();
  if (block != NULL && !writing && malloc_usable_size(block) >= LARGE_BYTES) {
    writing = 1;
    pthread_mutex_lock(&lock);
    for (size_t i = live_count; i-- > 0;) {
      if (live[i].block == block) {
        write_line('-', block, live[i].bytes, 0);
        live[i] = live[--live_count];
        break;
      }
    }
    pthread_mutex_unlock(&lock);
    writing = 0;
  }
  real_free(block);
}
