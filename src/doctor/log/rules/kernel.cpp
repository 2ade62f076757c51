// What the kernel says when pages are missing, and when it slows the machine down or turns it off. Its kills
// have a file of their own.
#include "doctor/log/rules.h"

namespace headroom::doctor {
namespace {

void derive_pages(LogMessage& message) {
  const std::int64_t order = message.number("order").value_or(-1);
  constexpr std::int64_t kMost = 20;
  message.add("page_count", order >= 0 && order < kMost ? std::to_string(std::int64_t{1} << order) : "many");
}

// "soctherm: OC ALARM 0x00000001" has a bit for each of the Jetson's alarms; 0 is none.
bool has_alarm(std::string_view line) { return line.find("OC ALARM 0x00000000") == line.npos; }

constexpr std::string_view kKernelText = R"rules(
rule page-allocation
  flags from_outside
  derive derive_pages
  line page allocation failure && order:
    figures order:{order:int}
  line "page allocation stalls for " && order:
    figures order:{order:int} || stalls for {stalled_ms:int}
  # -12 is ENOMEM. -16 is EBUSY, and the kernel tries again.
  line "cma_alloc: " && alloc failed && ret: -12 -> subject=contiguous
    figures req-size: {pages:int}
  finding contiguous-memory-full warning when subject=contiguous
    title The kernel could not allocate [[{pages} ]]pages from its contiguous memory area (CMA)
    cause Cameras, codecs and displays allocate their buffers in CMA. Its size is fixed at boot.
    cure see how much of CMA is free => grep Cma /proc/meminfo
    cure make CMA larger, on the kernel's command line => cma=256M
    cure use fewer or smaller camera and codec buffers
  # Up to order 3 (PAGE_ALLOC_COSTLY_ORDER) the kernel reclaims memory until it can.
  finding page-allocation-failed warning when order>3
    title The kernel [[waited {stalled_ms} ms for]][[if !stalled_ms:could not find]] {page_count} contiguous
          free pages
    cause Memory may have been free, but not in one block of this size: it is fragmented.
    cure @keep-pages-free
    cure @compact-memory
    cure @see-holders
  finding page-allocation-failed warning
    cause The machine had no free memory, or was too slow at writing pages to disk or swap.

cures another-swap
  cure add swap on a disk as a second level (slow when used) => sudo fallocate -l $(awk '/MemTotal/ {print
        int($2/2097152)+1}' /proc/meminfo)G /swapfile.headroom && sudo chmod 600 /swapfile.headroom && sudo
        mkswap /swapfile.headroom && sudo swapon /swapfile.headroom

# The page stays in memory, so nothing is lost, but what was to be freed is not. Where swap is zram, in
# memory itself, memory is most often what lacks.
rule swap-write
  flags from_outside waits_for_failure
  line zram && "Error allocating memory for compressed page: " -> swap=zram; part=zram
    figures size={requested_bytes}
  line Write-error on swap-device ({device}:{:int}) -> part=device
  finding swap-write-failed warning when swap=zram
    title zram had no memory for a page that the kernel wanted to swap out
    cause zram stores compressed pages in memory, and no memory was left for them.
    cure @see-holders
    cure @keep-pages-free
    cure @another-swap
  finding swap-write-failed warning possible
    title The kernel could not write to swap (device {device})
    cause If the device is zram, memory was full, or zram reached its mem_limit. If it is a disk or a file,
          the disk failed or was removed.
    cure find the device => swapon --show; lsblk -o NAME,MAJ:MIN,TYPE,MOUNTPOINTS
    cure @see-holders
    cure @keep-pages-free
    cure @another-swap

rule throttled
  flags from_outside is_not_of_memory
  line HARDWARE PROTECTION shutdown (Temperature too high) -> reason=critical temperature; subject={reason};
        part=shutdown
  # Before Linux 5.13 without the name of the zone.
  line thermal thermal_zone{:int}: critical temperature reached -> reason=critical temperature;
        subject={reason}; part=reached
    figures reached ({temperature_celsius:int}
  line thermal thermal_zone{:int}: {:word} critical temperature reached -> reason=critical temperature;
        subject={reason}; part=reached
    figures thermal_zone{:int}: {zone:word} critical || reached ({temperature_celsius:int}
  line soctherm: OC ALARM 0x -> reason=over-current; subject={reason}; check=has_alarm
  line emperature above threshold, cpu clock throttled -> reason=heat; subject={reason}
  finding thermal-shutdown certain when reason=critical temperature
    title The machine shut itself down: it was too hot[[ ({zone})]][[, at {temperature_celsius} °C]]
    cause The kernel turns the machine off at a sensor's critical temperature. This ended all programs. Memory
          did not run out.
    cure cool the machine: check dust, fan, heat sink contact and room temperature
    cure on a Jetson, choose a lower power mode, and turn the fan on => sudo nvpmodel -m MODE
    cure watch the temperatures => headroom top
  finding throttled warning certain when reason=over-current
    title The board was throttled: it drew more current than its power supply delivers
    cause The Jetson raised an over-current alarm. It lowers its clocks while the alarm lasts, so programs run
          slower. Nothing failed.
    cure choose a lower power mode => sudo nvpmodel -m MODE
    cure use a power supply and a cable for the board's full power
    cure watch the temperatures and the power mode => headroom top
  finding throttled warning certain
    title The processor was throttled: it was too hot
    cause The processor lowers its clocks until it has cooled, so programs run slower. Nothing failed.
    cure cool the machine: check dust, fan and room temperature
    cure or limit the CPU clock => sudo cpupower frequency-set --max 2GHz
    cure watch the temperatures => headroom top
)rules";

}  // namespace

RuleFamily kernel_rules() {
  return {kKernelText, {{"derive_pages", derive_pages}, {"has_alarm", has_alarm}}};
}

}  // namespace headroom::doctor
