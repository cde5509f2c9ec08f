/*
 * An NVML for tests on machines without a GPU: the same calls, answered out of a text file that
 * the variable FAKE_NVML_STATE names, read again at every call. So a test can let a GPU get hot,
 * be used by somebody, be throttled or fall off the bus while the real program looks on.
 *
 *     gpus 2               how many there are
 *     0.processes 7,8      who uses GPU 0
 *     0.utilization 40     …, and temperature, throttle (bits of nvml.h), ecc, xid, lost
 *     0.nvlinks 4          how many are up; 0.nvlinks_to 1: to GPU 1, else to a switch
 *     ancestor 20          what lies between two GPUs on PCIe (levels of nvml.h)
 *
 * Layouts and numbers from nvml.h. What is missing here counts as not supported, as on old drivers.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SUCCESS = 0, INVALID_ARGUMENT = 2, INSUFFICIENT_SIZE = 7, TIMEOUT = 10, GPU_IS_LOST = 15 };

typedef struct { unsigned pid; unsigned long long used; unsigned gpu, compute; } Process;
typedef struct { unsigned version; unsigned long long total, reserved, free, used; } Memory;
typedef struct { unsigned gpu, memory; } Utilization;
typedef struct { char legacy[16]; unsigned domain, bus, device, id, subsystem; char text[32]; } Pci;
typedef struct { void *device; unsigned long long type, data; unsigned gpu, compute; } Event;

/* Handles are the index and one, so that none is null. */
static unsigned index_of(void *device) { return (unsigned)(size_t)device - 1; }

static int text(const char *key, char *value, size_t size) {
    const char *path = getenv("FAKE_NVML_STATE");
    FILE *file = path ? fopen(path, "r") : NULL;
    char line[512];
    int found = 0;
    while (file && fgets(line, sizeof line, file)) {
        size_t length = strlen(key);
        if (strncmp(line, key, length) == 0 && line[length] == ' ') {
            line[strcspn(line, "\n")] = 0;
            snprintf(value, size, "%s", line + length + 1);
            found = 1;
        }
    }
    if (file) fclose(file);
    return found;
}

static unsigned long long number(const char *key, unsigned long long otherwise) {
    char value[512];
    return text(key, value, sizeof value) ? strtoull(value, NULL, 0) : otherwise;
}

static unsigned long long of(void *device, const char *key, unsigned long long otherwise) {
    char full[64];
    snprintf(full, sizeof full, "%u.%s", index_of(device), key);
    return number(full, otherwise);
}

#define ALIVE(device) if (of(device, "lost", 0)) return GPU_IS_LOST

int nvmlInit_v2(void) { return SUCCESS; }
int nvmlShutdown(void) { return SUCCESS; }
const char *nvmlErrorString(int error) { return error == SUCCESS ? "fine" : "not fine"; }

int nvmlSystemGetDriverVersion(char *version, unsigned length) {
    snprintf(version, length, "580.0.fake");
    text("driver", version, length);
    return SUCCESS;
}

int nvmlSystemGetCudaDriverVersion_v2(int *version) { *version = 13000; return SUCCESS; }

int nvmlDeviceGetCount_v2(unsigned *count) {
    *count = (unsigned)number("gpus", 1);
    return SUCCESS;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **device) {
    if (index >= number("gpus", 1)) return INVALID_ARGUMENT;
    *device = (void *)(size_t)(index + 1);
    ALIVE(*device);
    return SUCCESS;
}

int nvmlDeviceGetName(void *device, char *name, unsigned length) {
    (void)device;
    snprintf(name, length, "Fake GPU");
    return SUCCESS;
}

/* The process that asks must be part of it: two tests at once must not lock each other's GPUs. */
int nvmlDeviceGetUUID(void *device, char *uuid, unsigned length) {
    char prefix[64] = "fake";
    text("uuid", prefix, sizeof prefix);
    snprintf(uuid, length, "GPU-%s-%u", prefix, index_of(device));
    return SUCCESS;
}

int nvmlDeviceGetMemoryInfo_v2(void *device, Memory *memory) {
    ALIVE(device);
    memory->total = 16ULL << 30;
    memory->reserved = 0;
    memory->used = of(device, "used", 1ULL << 30);
    memory->free = memory->total - memory->used;
    return SUCCESS;
}

int nvmlDeviceGetComputeRunningProcesses_v3(void *device, unsigned *count, Process *processes) {
    char key[64], value[512] = "";
    ALIVE(device);
    snprintf(key, sizeof key, "%u.processes", index_of(device));
    text(key, value, sizeof value);
    unsigned found = 0, room = *count;
    for (char *word = strtok(value, ","); word; word = strtok(NULL, ",")) {
        if (processes && found < room) {
            processes[found] = (Process){(unsigned)atoi(word), 1ULL << 20, 0, 0};
        }
        found++;
    }
    *count = found;
    return found > room || (found && !processes) ? INSUFFICIENT_SIZE : SUCCESS;
}

int nvmlDeviceGetUtilizationRates(void *device, Utilization *utilization) {
    ALIVE(device);
    utilization->gpu = (unsigned)of(device, "utilization", 0);
    utilization->memory = 0;
    return SUCCESS;
}

int nvmlDeviceGetTemperature(void *device, int sensor, unsigned *celsius) {
    (void)sensor;
    ALIVE(device);
    *celsius = (unsigned)of(device, "temperature", 35);
    return SUCCESS;
}

int nvmlDeviceGetPowerUsage(void *device, unsigned *milliwatts) {
    ALIVE(device);
    *milliwatts = (unsigned)of(device, "power", 80000);
    return SUCCESS;
}

int nvmlDeviceGetClockInfo(void *device, int clock, unsigned *mhz) {
    (void)clock;
    ALIVE(device);
    *mhz = (unsigned)of(device, "clock", 1980);
    return SUCCESS;
}

int nvmlDeviceGetCurrentClocksThrottleReasons(void *device, unsigned long long *reasons) {
    ALIVE(device);
    *reasons = of(device, "throttle", 0);
    return SUCCESS;
}

int nvmlDeviceGetTotalEccErrors(void *device, int type, int counter, unsigned long long *count) {
    (void)type;
    (void)counter;
    ALIVE(device);
    *count = of(device, "ecc", 0);
    return SUCCESS;
}

static int pci(unsigned bus, Pci *pci) {
    *pci = (Pci){"", 0, bus, 0, 0, 0, ""};
    return SUCCESS;
}

int nvmlDeviceGetPciInfo_v3(void *device, Pci *info) { return pci(index_of(device) + 1, info); }

int nvmlDeviceGetNvLinkState(void *device, unsigned link, int *is_active) {
    *is_active = link < of(device, "nvlinks", 0);
    return SUCCESS;
}

int nvmlDeviceGetNvLinkRemotePciInfo_v2(void *device, unsigned link, Pci *info) {
    (void)link;
    return pci((unsigned)of(device, "nvlinks_to", 254) + 1, info);
}

int nvmlDeviceGetTopologyCommonAncestor(void *device, void *other, int *level) {
    (void)device;
    (void)other;
    *level = (int)number("ancestor", 50);
    return SUCCESS;
}

/* 5 is not supported; 2 asks for NVLink, which two GPUs have where both have one that is up. */
int nvmlDeviceGetP2PStatus(void *device, void *other, int what, int *status) {
    int linked = of(device, "nvlinks", 0) && of(other, "nvlinks", 0);
    *status = what == 2 && !linked ? 5 : 0;
    return SUCCESS;
}

static void *listening;
static unsigned long long told;

int nvmlEventSetCreate(void **set) { *set = &listening; return SUCCESS; }
int nvmlEventSetFree(void *set) { (void)set; return SUCCESS; }

int nvmlDeviceRegisterEvents(void *device, unsigned long long types, void *set) {
    (void)types;
    (void)set;
    listening = device;
    return SUCCESS;
}

int nvmlEventSetWait_v2(void *set, Event *event, unsigned milliseconds) {
    (void)set;
    (void)milliseconds;
    unsigned long long xid = listening ? of(listening, "xid", 0) : 0;
    if (xid == told || xid == 0) return TIMEOUT;
    told = xid;
    *event = (Event){listening, 8, xid, 0, 0};
    return SUCCESS;
}
