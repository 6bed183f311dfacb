#include "fs/kernel_tuning.h"

#include <fstream>
#include <sstream>

#include "base/log.h"

namespace codecfs::fs {
namespace {

/// mountinfo writes space, tab, newline and backslash as three octal digits.
std::string unescape_octal(const std::string& text) {
  std::string plain;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\\' && text.size() - i >= 4) {
      plain += static_cast<char>(std::stoi(text.substr(i + 1, 3), nullptr, 8));
      i += 3;
    } else {
      plain += text[i];
    }
  }
  return plain;
}

}  // namespace

void raise_readahead(const std::string& mountpoint, unsigned bytes) {
  std::ifstream mounts("/proc/self/mountinfo");
  std::string line;
  std::string device;  // the last one mounted there is ours
  while (std::getline(mounts, line)) {
    std::istringstream fields(line);
    std::string id, parent, major_minor, root, point;
    fields >> id >> parent >> major_minor >> root >> point;
    if (unescape_octal(point) == mountpoint) device = major_minor;
  }
  if (device.empty()) return;
  std::ofstream setting("/sys/class/bdi/" + device + "/read_ahead_kb");
  setting << bytes / 1024 << std::flush;
  log::debug("read_ahead_kb of {} {}", device, setting ? "raised" : "left as it is");
}

}  // namespace codecfs::fs
