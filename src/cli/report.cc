#include "cli/report.h"

#include <cstdio>

#include "base/terminal_text.h"

namespace codecfs::cli {

int report(const Error& error, int code) {
  std::fprintf(stderr, "codecfs: %s\n", printable(error.reason).c_str());
  return code;
}

}  // namespace codecfs::cli
