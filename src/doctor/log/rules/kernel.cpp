// What the kernel says when pages are missing, and when it slows the machine down or turns it off. Its kills
// have rules of their own.
#include <fmt/format.h>

#include "doctor/cure_commands.h"
#include "doctor/log/common_cures.h"
#include "doctor/log/rules.h"

namespace headroom::doctor {
namespace {

constexpr std::string_view kPagesTitle = "The kernel {could_not} {page_count} contiguous free pages";

void derive_pages(LogMessage& message) {
  const std::int64_t order = message.number("order").value_or(-1);
  constexpr std::int64_t kMost = 20;
  message.add("page_count", order >= 0 && order < kMost ? std::to_string(std::int64_t{1} << order) : "many");
  const auto stalled = message.number("stalled_ms");
  message.add("could_not", stalled ? fmt::format("waited {} ms for", *stalled) : "could not find");
}

// "soctherm: OC ALARM 0x00000001" has a bit for each of the Jetson's alarms; 0 is none.
bool has_alarm(std::string_view line) { return line.find("OC ALARM 0x00000000") == line.npos; }

CureRow another_swap() {
  static const Cure kCure = make_swap_file("", std::nullopt, SwapFile::another);
  return {"add swap on a disk as a second level (slow when used)", kCure.command};
}

}  // namespace

LogRule page_allocation_rule() {
  const std::vector<CureRow> cures{kKeepPagesFree, kCompactMemory, kSeeHolders};
  return {
      .name = "page-allocation",
      .from_outside = true,
      .wordings = {{.all = {"page allocation failure", "order:"}, .figures = {"order:{order:int}"}},
                   {.all = {"page allocation stalls for ", "order:"},
                    .figures = {"order:{order:int}", "stalls for {stalled_ms:int}"}},
                   // -12 is ENOMEM. -16 is EBUSY, and the kernel tries again.
                   {.all = {"cma_alloc: ", "alloc failed", "ret: -12"},
                    .figures = {"req-size: {pages:int}"},
                    .subject = "contiguous"}},
      .explanations =
          {{.when = "subject=contiguous",
            .id = "contiguous-memory-full",
            .severity = Severity::warning,
            .title = "The kernel could not allocate [[{pages} ]]pages from its contiguous memory area (CMA)",
            .cause = "Cameras, codecs and displays allocate their buffers in CMA. Its size is fixed at boot.",
            .cures = {{"see how much of CMA is free", "grep Cma /proc/meminfo"},
                      {"make CMA larger, on the kernel's command line", "cma=256M"},
                      {"use fewer or smaller camera and codec buffers"}}},
           // Up to order 3 (PAGE_ALLOC_COSTLY_ORDER) the kernel reclaims memory until it can.
           {.when = "order>3",
            .id = "page-allocation-failed",
            .severity = Severity::warning,
            .title = kPagesTitle,
            .cause = "Memory may have been free, but not in one block of this size: it is fragmented.",
            .cures = cures},
           {.id = "page-allocation-failed",
            .severity = Severity::warning,
            .title = kPagesTitle,
            .cause = "The machine had no free memory, or was too slow at writing pages to disk or swap.",
            .cures = cures}},
      .derive = derive_pages};
}

// The page stays in memory, so nothing is lost, but what was to be freed is not. Where swap is zram, in
// memory itself, memory is most often what lacks.
LogRule swap_write_rule() {
  return {
      .name = "swap-write",
      .from_outside = true,
      .waits_for_failure = true,
      .wordings = {{.all = {"zram", "Error allocating memory for compressed page: "},
                    .figures = {"swap=zram", "size={requested_bytes}"},
                    .part = "zram"},
                   // The device's major and minor number, and the place on it.
                   {.all = {"Write-error on swap-device ({device}:{:int})"}, .part = "device"}},
      .explanations = {
          {.when = "swap=zram",
           .id = "swap-write-failed",
           .severity = Severity::warning,
           .title = "zram had no memory for a page that the kernel wanted to swap out",
           .cause = "zram stores compressed pages in memory, and no memory was left for them.",
           .cures = {kSeeHolders, kKeepPagesFree, another_swap()}},
          {.id = "swap-write-failed",
           .severity = Severity::warning,
           .confidence = Confidence::possible,
           .title = "The kernel could not write to swap (device {device})",
           .cause =
               "If the device is zram, memory was full, or zram reached its mem_limit. If it is a disk or a "
               "file, the disk failed or was removed.",
           .cures = {{"find the device", "swapon --show; lsblk -o NAME,MAJ:MIN,TYPE,MOUNTPOINTS"},
                     kSeeHolders,
                     kKeepPagesFree,
                     another_swap()}}}};
}

LogRule throttled_rule() {
  constexpr CureRow kTemperatures{"watch the temperatures", "headroom top"};
  return {
      .name = "throttled",
      .from_outside = true,
      .is_of_memory = false,
      .wordings = {{.all = {"HARDWARE PROTECTION shutdown (Temperature too high)"},
                    .figures = {"reason=critical temperature"},
                    .subject = "{reason}",
                    .part = "shutdown"},
                   // Before Linux 5.13 without the name of the zone: "reached (105 C), shutting down".
                   {.all = {"thermal thermal_zone{:int}: critical temperature reached"},
                    .figures = {"reason=critical temperature", "reached ({temperature_celsius:int}"},
                    .subject = "{reason}",
                    .part = "reached"},
                   {.all = {"thermal thermal_zone{:int}: {:word} critical temperature reached"},
                    .figures = {"reason=critical temperature", "thermal_zone{:int}: {zone:word} critical",
                                "reached ({temperature_celsius:int}"},
                    .subject = "{reason}",
                    .part = "reached"},
                   {.all = {"soctherm: OC ALARM 0x"},
                    .figures = {"reason=over-current"},
                    .subject = "{reason}",
                    .check = has_alarm},
                   {.all = {"emperature above threshold, cpu clock throttled"},
                    .figures = {"reason=heat"},
                    .subject = "{reason}"}},
      .explanations = {
          {.when = "reason=critical temperature",
           .id = "thermal-shutdown",
           .confidence = Confidence::certain,
           .title =
               "The machine shut itself down: it was too hot[[ ({zone})]][[, at {temperature_celsius} °C]]",
           .cause = "The kernel turns the machine off at a sensor's critical temperature. This ended all "
                    "programs. Memory did not run out.",
           .cures = {{"cool the machine: check dust, fan, heat sink contact and room temperature"},
                     {"on a Jetson, choose a lower power mode, and turn the fan on", "sudo nvpmodel -m MODE"},
                     kTemperatures}},
          {.when = "reason=over-current",
           .id = "throttled",
           .severity = Severity::warning,
           .confidence = Confidence::certain,
           .title = "The board was throttled: it drew more current than its power supply delivers",
           .cause = "The Jetson raised an over-current alarm. It lowers its clocks while the alarm lasts, so "
                    "programs run slower. Nothing failed.",
           .cures = {{"choose a lower power mode", "sudo nvpmodel -m MODE"},
                     {"use a power supply and a cable for the board's full power"},
                     {"watch the temperatures and the power mode", "headroom top"}}},
          {.id = "throttled",
           .severity = Severity::warning,
           .confidence = Confidence::certain,
           .title = "The processor was throttled: it was too hot",
           .cause =
               "The processor lowers its clocks until it has cooled, so programs run slower. Nothing failed.",
           .cures = {{"cool the machine: check dust, fan and room temperature"},
                     {"or limit the CPU clock", "sudo cpupower frequency-set --max 2GHz"},
                     kTemperatures}}}};
}

}  // namespace headroom::doctor
