/* A libnvidia-ml.so.1 for tests: two devices, of which the first knows everything and the second little.

   FAKE_NVML="name=code ..."  makes a function return this code (3 not supported, 13 function not found, 15 lost);
   FAKE_NVML_LOST_AFTER=n     every device is lost from the n-th utilisation on. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef int Return;
typedef struct { int index; } *Device;
typedef struct { unsigned gpu, memory; } Utilisation;
typedef struct { unsigned long long total, free, used; } Memory;
typedef struct { unsigned pid; unsigned long long used; unsigned gpu_instance, compute_instance; } Process;

enum { OK = 0, INVALID = 2, NOT_SUPPORTED = 3, TOO_SMALL = 7, LOST = 15, DEVICES = 2, LINKS = 4 };
static struct { int index; } devices[DEVICES] = {{0}, {1}};
static int utilisations;

static Return told(const char *function) {
    const char *list = getenv("FAKE_NVML"), *found = list ? strstr(list, function) : NULL;
    return found && found[strlen(function)] == '=' ? atoi(found + strlen(function) + 1) : OK;
}
static Return lost(void) {
    const char *after = getenv("FAKE_NVML_LOST_AFTER");
    return after && utilisations >= atoi(after) ? LOST : OK;
}
/* what `device` answers: an injected code, lost, or not supported on the second one */
static Return state(const char *function, Device device) {
    Return code = told(function);
    if (code == OK) code = lost();
    return code == OK && device->index == 1 ? NOT_SUPPORTED : code;
}
#define ANSWER(function) do { Return code = state(#function, device); if (code) return code; } while (0)

Return nvmlInitWithFlags(unsigned flags) { return told("nvmlInit"); }
Return nvmlInit_v2(void) { return told("nvmlInit"); }
Return nvmlShutdown(void) { return OK; }
const char *nvmlErrorString(Return code) { return code == LOST ? "GPU is lost" : "told to fail"; }
Return nvmlDeviceGetCount_v2(unsigned *count) { *count = DEVICES; return told("nvmlDeviceGetCount"); }
Return nvmlDeviceGetHandleByIndex_v2(unsigned index, Device *device) {
    if (index >= DEVICES) return INVALID;
    *device = (Device)&devices[index];
    return told("nvmlDeviceGetHandleByIndex");
}
Return nvmlDeviceGetHandleByUUID(const char *uuid, Device *device) {
    int index = -1;
    if (sscanf(uuid, "GPU-fa4e0000-%d", &index) != 1 || index < 0 || index >= DEVICES) return INVALID;
    *device = (Device)&devices[index];
    return OK;
}
Return nvmlDeviceGetIndex(Device device, unsigned *index) { *index = device->index; return OK; }
Return nvmlDeviceGetUUID(Device device, char *text, unsigned length) {
    snprintf(text, length, "GPU-fa4e0000-%d", device->index);
    return OK;
}
Return nvmlDeviceGetName(Device device, char *text, unsigned length) {
    snprintf(text, length, "Fake %d", device->index);
    return OK;
}
/* both devices know their utilisation and memory */
Return nvmlDeviceGetUtilizationRates(Device device, Utilisation *found) {
    Return code = told("nvmlDeviceGetUtilizationRates");
    if (!code) code = lost();
    utilisations++;
    *found = (Utilisation){90 - device->index * 40, 35};
    return code;
}
Return nvmlDeviceGetMemoryInfo(Device device, Memory *found) {
    Return code = told("nvmlDeviceGetMemoryInfo");
    *found = (Memory){80ULL << 30, 20ULL << 30, 60ULL << 30};
    return code ? code : lost();
}
Return nvmlDeviceGetClockInfo(Device device, unsigned kind, unsigned *mhz) {
    ANSWER(nvmlDeviceGetClockInfo);
    *mhz = kind == 2 ? 2619 : kind == 1 ? 1410 : 1;
    return OK;
}
Return nvmlDeviceGetMaxClockInfo(Device device, unsigned kind, unsigned *mhz) {
    ANSWER(nvmlDeviceGetMaxClockInfo);
    *mhz = 1980;
    return OK;
}
Return nvmlDeviceGetPowerUsage(Device device, unsigned *mw) { ANSWER(nvmlDeviceGetPowerUsage); *mw = 650500; return OK; }
Return nvmlDeviceGetEnforcedPowerLimit(Device device, unsigned *mw) {
    ANSWER(nvmlDeviceGetEnforcedPowerLimit);
    *mw = 700000;
    return OK;
}
Return nvmlDeviceGetTotalEnergyConsumption(Device device, unsigned long long *mj) {
    ANSWER(nvmlDeviceGetTotalEnergyConsumption);
    *mj = 1234500ULL;
    return OK;
}
Return nvmlDeviceGetTemperature(Device device, unsigned sensor, unsigned *celsius) {
    ANSWER(nvmlDeviceGetTemperature);
    *celsius = 88;
    return OK;
}
Return nvmlDeviceGetCurrentClocksThrottleReasons(Device device, unsigned long long *bits) {
    ANSWER(nvmlDeviceGetCurrentClocksThrottleReasons);
    *bits = 0x44;
    return OK;
}
Return nvmlDeviceGetCurrentClocksEventReasons(Device device, unsigned long long *bits) {
    ANSWER(nvmlDeviceGetCurrentClocksEventReasons);
    *bits = 0x44;
    return OK;
}
Return nvmlDeviceGetPcieThroughput(Device device, unsigned counter, unsigned *kilobytes) {
    ANSWER(nvmlDeviceGetPcieThroughput);
    *kilobytes = counter == 0 ? 1200000 : 800000;
    return OK;
}
Return nvmlDeviceGetTotalEccErrors(Device device, unsigned kind, unsigned counter, unsigned long long *errors) {
    ANSWER(nvmlDeviceGetTotalEccErrors);
    *errors = kind == 0 ? 7 : 1;
    return OK;
}
Return nvmlDeviceGetNvLinkState(Device device, unsigned link, unsigned *active) {
    ANSWER(nvmlDeviceGetNvLinkState);
    if (link >= LINKS) return INVALID;
    *active = link != 2;
    return OK;
}
Return nvmlDeviceGetNvLinkErrorCounter(Device device, unsigned link, unsigned counter, unsigned long long *errors) {
    ANSWER(nvmlDeviceGetNvLinkErrorCounter);
    *errors = counter == 0 ? 5 : 0;
    return OK;
}
Return nvmlDeviceGetComputeRunningProcesses_v3(Device device, unsigned *count, Process *found) {
    ANSWER(nvmlDeviceGetComputeRunningProcesses);
    if (*count < 1) { *count = 1; return TOO_SMALL; }
    *count = 1;
    found[0] = (Process){4242, 3ULL << 30, 0, 0};
    return OK;
}
