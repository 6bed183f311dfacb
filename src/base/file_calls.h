#pragma once
// File calls of a sandboxed process, which another process answers (seccomp_unotify(2)):
//
//   sandboxed process                       the other one
//   open FileCallEnds; enter the sandbox
//   send listener and ends  --------------> FileCalls calls(listener, ends);
//   openat(...)  --- waits ---------------> auto call = calls.receive();
//                <------------------------- calls.answer(*call, {.fd = ...});
//
// A FileCall is a private copy: the calling process cannot change it any more. The calling thread sleeps until it is
// answered; its calls fail with ENOSYS once the listener is closed everywhere.

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "base/mutex.h"
#include "base/result.h"
#include "base/unique_fd.h"

namespace codecfs {

/// The system calls, by their names. See FileCall::Kind.
std::span<const char* const> file_call_names();

struct FileCall {
  enum class Kind {
    open,           // flags: O_*, mode
    status,         // flags: AT_SYMLINK_NOFOLLOW; a struct stat
    status_x,       // flags, mask; a struct statx
    access,         // flags: AT_SYMLINK_NOFOLLOW, AT_EACCESS; mode: R_OK and so on
    read_link,      // size
    unlink,         // flags: AT_REMOVEDIR
    rename,         // to_directory, to_path; flags: RENAME_*
    get_attribute,  // path: its name; size
    set_attribute,  // path: its name; value; flags: XATTR_*
    remove_attribute,
    set_mode,   // mode
    set_owner,  // user, group; UINT32_MAX: not changed
    lock,       // mode: LOCK_* of flock(2)
  };
  Kind kind = Kind::open;
  uint64_t id = 0;
  uint32_t thread = 0;  // of the caller
  /// An O_PATH descriptor of the directory that `path` is relative to, or of the file that the call is for. None: the
  /// working directory, or `path` is absolute.
  UniqueFd at = {};
  int at_number = -1;  // of the caller's descriptor
  std::string path = {};
  UniqueFd to_directory = {};
  std::string to_path = {};
  std::string value = {};
  uint32_t flags = 0;
  uint32_t mode = 0;
  uint32_t mask = 0;
  uint32_t user = 0;
  uint32_t group = 0;
  uint64_t buffer = 0;  // an address of the caller
  uint64_t size = 0;    // of the buffer
};

/// The answer to a call: an error, a descriptor, bytes for its buffer, or a number.
struct FileAnswer {
  int error = 0;      // errno
  int64_t value = 0;  // what the call returns; not for descriptors
  UniqueFd fd = {};
  std::string bytes = {};
  bool is_continued = false;  // the kernel executes the call
};

/// What a process opens before it enters its sandbox, so that its calls can be read whatever it does later.
struct FileCallEnds {
  UniqueFd memory;   // of the process, for reading and writing
  UniqueFd process;  // its directory in /proc
  /// Opens those of the calling process. Errors if /proc is not mounted.
  static Result<FileCallEnds> open();
};

/// Receives and answers. Thread-safe.
class FileCalls {
 public:
  FileCalls(UniqueFd listener, FileCallEnds ends);

  /// POLLIN if there may be a call; POLLHUP if the process has ended.
  [[nodiscard]] int listener() const { return listener_.get(); }
  /// None if there is no call. Calls that cannot be read are answered with an error.
  std::optional<FileCall> receive();
  void answer(const FileCall& call, const FileAnswer& answer);

  /// The present path of the caller's descriptor, as the kernel shows it. Empty on errors.
  [[nodiscard]] std::string path_of(int number) const;
  /// An O_PATH descriptor of what the caller's descriptor refers to. None on errors.
  [[nodiscard]] UniqueFd file_of(int number) const;
  /// O_RDONLY, O_WRONLY or O_RDWR. -1 on errors.
  [[nodiscard]] int access_of(int number) const;

 private:
  struct Received;
  bool decode(const Received& received, FileCall& call) const;
  bool read_text(uint64_t address, size_t most, std::string& text) const;
  void answer_number(uint64_t id, int64_t value, int error, uint32_t flags);
  void answer_descriptor(uint64_t id, int fd, bool closes_on_exec);

  const UniqueFd listener_;
  const FileCallEnds ends_;
  size_t received_bytes_ = 0;  // as this kernel has the structures
  size_t answer_bytes_ = 0;
  Mutex receiving_{LockRank::file_calls};
};

}  // namespace codecfs
