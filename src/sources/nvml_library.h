// NVIDIA's management library, opened at run time. It speaks to the kernel module through ioctl and makes no
// CUDA context: a process that has it open uses no memory of a GPU.
#pragma once

#include <memory>
#include <string>

#include "base/result.h"
#include "sources/nvml_types.h"

namespace headroom::sources::nvml {

// The functions that are used. One that the driver's library does not have is a null pointer.
struct Functions {
  Return (*init)();
  Return (*shutdown)();
  const char* (*error_string)(Return);
  Return (*driver_version)(char* text, unsigned length);
  Return (*device_count)(unsigned* count);
  Return (*device_by_index)(unsigned index, Device* device);
  Return (*name)(Device, char* text, unsigned length);
  Return (*uuid)(Device, char* text, unsigned length);
  Return (*pci_info)(Device, PciInfo* info);
  Return (*memory_v1)(Device, MemoryV1* memory);
  Return (*memory_v2)(Device, MemoryV2* memory);
  Return (*utilization)(Device, Utilization* utilization);
  Return (*encoder_utilization)(Device, unsigned* percent, unsigned* period_us);
  Return (*decoder_utilization)(Device, unsigned* percent, unsigned* period_us);
  Return (*clock)(Device, unsigned type, unsigned* megahertz);
  Return (*power)(Device, unsigned* milliwatts);
  Return (*power_limit)(Device, unsigned* milliwatts);
  Return (*temperature)(Device, unsigned sensor, unsigned* celsius);
  Return (*clock_reasons)(Device, unsigned long long* reasons);
  Return (*mig_mode)(Device, unsigned* current, unsigned* pending);
  Return (*mig_count)(Device, unsigned* count);  // the most that there can be
  Return (*mig_by_index)(Device, unsigned index, Device* instance);
  Return (*gpu_instance)(Device instance, unsigned* id);
  Return (*compute_instance)(Device instance, unsigned* id);
  // The entries' layout is found out (nvml_processes.h); `count` is the room before the call, what there is
  // after it.
  Return (*compute_processes)(Device, unsigned* count, void* entries);
  Return (*graphics_processes)(Device, unsigned* count, void* entries);
  Return (*mps_processes)(Device, unsigned* count, void* entries);
};

class Library {
 public:
  // Opens and initialises the library. `file_name` is looked for as dlopen does, and, if it is the default
  // and not found there, where Windows Subsystem for Linux keeps it. Errors: it cannot be opened, it is not
  // NVML, or it does not start (no driver loaded, no permission, driver and library of different versions).
  static Result<std::shared_ptr<const Library>> open(const std::string& file_name = kFileName);
  ~Library();
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;

  const Functions& functions() const { return functions_; }
  // "Not Supported", in NVML's words.
  std::string error_text(Return code) const;
  std::string driver_version() const;  // "580.159.04"; empty if it does not say

  static constexpr const char* kFileName = "libnvidia-ml.so.1";

 private:
  Library(void* handle, const Functions& functions) : handle_(handle), functions_(functions) {}
  void* handle_;
  Functions functions_;
};

}  // namespace headroom::sources::nvml
