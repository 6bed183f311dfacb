#pragma once
// The readers of a copy of a dataset: only users that may read all of the dataset.

#include <sys/types.h>

#include <string>
#include <utility>

#include "base/result.h"

namespace codecfs::commands {

/// While it lives, the umask of the process is so narrow that what is made in a copy gives group and other users no
/// more than open_to_readers() gives them of the copy itself; for a source of another group only the copy's directory
/// keeps them out. One at a time in a process.
class CopyUmask {
 public:
  static Result<CopyUmask> of(const std::string& source);
  CopyUmask(CopyUmask&& other) noexcept : before_(other.before_), is_set_(std::exchange(other.is_set_, false)) {}
  CopyUmask& operator=(CopyUmask&&) = delete;
  ~CopyUmask();

 private:
  explicit CopyUmask(mode_t allowed);

  mode_t before_;
  bool is_set_ = true;
};

/// Opens a complete copy, a private file or directory, to other users, as far as umask permits and each file and
/// directory of the source gives them access. A source with an access control list makes a private copy, and an object
/// store gives no permissions to follow.
Result<> open_to_readers(const std::string& copy, const std::string& source);

}  // namespace codecfs::commands
