#include "cli/report.h"

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "base/terminal_text.h"

namespace codecfs::cli {

int print(std::string_view text, int code) {
  if (std::fwrite(text.data(), 1, text.size(), stdout) == text.size() && std::fflush(stdout) == 0) return code;
  return report(Error{errno, fmt::format("cannot write the output: {}", std::strerror(errno))}, kFailed);
}

int print_plugins(std::string_view what, std::string_view plugins) {
  return print(
      printable(fmt::format("{} needs a plugin of HDF5 for {} now in other programs (h5py: `import hdf5plugin`; "
                            "ncdump: HDF5_PLUGIN_PATH)",
                            what, plugins)) +
      "\n");
}

int report(const Error& error, int code) {
  std::fprintf(stderr, "codecfs: %s\n", printable(error.reason).c_str());
  return code;
}

}  // namespace codecfs::cli
