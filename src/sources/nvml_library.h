// NVIDIA's management library (NVML), opened at run time. It talks to the kernel module through ioctl and
// creates no CUDA context, so it uses no GPU memory.
#pragma once

#include <memory>
#include <string>

#include "base/result.h"
#include "sources/nvml_types.h"

namespace headroom::sources::nvml {

// The functions that Headroom uses. A function that the driver's library lacks is a null pointer.
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
  Return (*mig_count)(Device, unsigned* count);  // the maximum number of instances
  Return (*mig_by_index)(Device, unsigned index, Device* instance);
  Return (*gpu_instance)(Device instance, unsigned* id);
  Return (*compute_instance)(Device instance, unsigned* id);
  // The layout of the entries is detected (nvml_processes.h). `count` is the capacity before the call and
  // the number of entries after it.
  Return (*compute_processes)(Device, unsigned* count, void* entries);
  Return (*graphics_processes)(Device, unsigned* count, void* entries);
  Return (*mps_processes)(Device, unsigned* count, void* entries);
};

class Library {
 public:
  // Opens and initialises the library. `file_name` is searched as dlopen does. If the default is not found,
  // the folder of Windows Subsystem for Linux is tried. Fails if the library cannot be opened, is not NVML,
  // or does not start (driver not loaded, no permission, driver and library of different versions).
  static Result<std::shared_ptr<const Library>> open(const std::string& file_name = kFileName);
  ~Library();
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;

  const Functions& functions() const { return functions_; }
  // NVML's text for a code, such as "Not Supported".
  std::string error_text(Return code) const;
  std::string driver_version() const;  // "580.159.04"; empty if unknown

  static constexpr const char* kFileName = "libnvidia-ml.so.1";

 private:
  Library(void* handle, const Functions& functions) : handle_(handle), functions_(functions) {}
  void* handle_;
  Functions functions_;
};

}  // namespace headroom::sources::nvml
