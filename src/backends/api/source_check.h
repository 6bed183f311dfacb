#pragma once

#include <string>

namespace codecfs {

/// Whether a log beside a source holds committed changes of a mount that was killed.
struct SourceCheck {
  bool has_pending = false;
  std::string text;  // has_pending as a sentence, with the path
};

}  // namespace codecfs
