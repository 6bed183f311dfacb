#include "cli/report.h"

#include <algorithm>
#include <cstdio>

namespace codecfs::cli {

int report(const Error& error, int code) {
  std::string line = error.reason;
  std::ranges::replace(line, '\n', ' ');  // keeps the message on one line if a name contains a newline
  std::fprintf(stderr, "codecfs: %s\n", line.c_str());
  return code;
}

}  // namespace codecfs::cli
