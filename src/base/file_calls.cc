#include "base/file_calls.h"

#include <fcntl.h>
#include <linux/limits.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <seccomp.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <sys/xattr.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <string_view>
#include <vector>

namespace codecfs {
namespace {

using Kind = FileCall::Kind;

/// Where a system call has its arguments; -1: it has no such argument.
struct Form {
  const char* name;
  Kind kind;
  int at;
  int path;
  int flags = -1;
  int mode = -1;
  int buffer = -1;
  int size = -1;
  int to_at = -1;
  int to_path = -1;
};

// In the order of the members: at, path, flags, mode, buffer, size, to_at, to_path.
constexpr std::array kForms{
    Form{"open", Kind::open, -1, 0, 1, 2},
    Form{"creat", Kind::open, -1, 0, -1, 1},
    Form{"openat", Kind::open, 0, 1, 2, 3},
    Form{"stat", Kind::status, -1, 0, -1, -1, 1},
    Form{"lstat", Kind::status, -1, 0, -1, -1, 1},
    Form{"newfstatat", Kind::status, 0, 1, 3, -1, 2},
    Form{"statx", Kind::status_x, 0, 1, 2, 3, 4},  // the mask as the mode
    Form{"access", Kind::access, -1, 0, -1, 1},
    Form{"faccessat", Kind::access, 0, 1, -1, 2},
    Form{"faccessat2", Kind::access, 0, 1, 3, 2},
    Form{"readlink", Kind::read_link, -1, 0, -1, -1, 1, 2},
    Form{"readlinkat", Kind::read_link, 0, 1, -1, -1, 2, 3},
    Form{"unlink", Kind::unlink, -1, 0},
    Form{"unlinkat", Kind::unlink, 0, 1, 2},
    Form{"rename", Kind::rename, -1, 0, -1, -1, -1, -1, -1, 1},
    Form{"renameat", Kind::rename, 0, 1, -1, -1, -1, -1, 2, 3},
    Form{"renameat2", Kind::rename, 0, 1, 4, -1, -1, -1, 2, 3},
    Form{"fgetxattr", Kind::get_attribute, 0, 1, -1, -1, 2, 3},
    Form{"fsetxattr", Kind::set_attribute, 0, 1, 4, -1, 2, 3},
    Form{"fremovexattr", Kind::remove_attribute, 0, 1},
    Form{"fchmod", Kind::set_mode, 0, -1, -1, 1},
    Form{"fchown", Kind::set_owner, 0, -1},  // user and group: the second and the third
    Form{"flock", Kind::lock, 0, -1, -1, 1},
};

constexpr auto kNames = [] {
  std::array<const char*, kForms.size()> names{};
  for (size_t i = 0; i < names.size(); ++i) names.at(i) = kForms.at(i).name;
  return names;
}();

const Form* form_of(int number) {
  static const auto numbers = [] {
    std::array<int, kForms.size()> all{};
    for (size_t i = 0; i < all.size(); ++i) all.at(i) = ::seccomp_syscall_resolve_name(kForms.at(i).name);
    return all;
  }();
  const auto found = std::ranges::find(numbers, number);
  return found == numbers.end() ? nullptr : &kForms.at(static_cast<size_t>(found - numbers.begin()));
}

bool is_on_descriptor(Kind kind) { return kind >= Kind::get_attribute; }

}  // namespace

struct FileCalls::Received {
  uint64_t id = 0;
  uint32_t thread = 0;
  int number = 0;
  std::array<uint64_t, 6> arguments{};

  [[nodiscard]] uint64_t argument(int index) const { return index < 0 ? 0 : arguments.at(static_cast<size_t>(index)); }
};

std::span<const char* const> file_call_names() { return kNames; }

Result<FileCallEnds> FileCallEnds::open() {
  FileCallEnds ends{UniqueFd(::open("/proc/self/mem", O_RDWR | O_CLOEXEC)),
                    UniqueFd(::open("/proc/self", O_RDONLY | O_DIRECTORY | O_CLOEXEC))};
  if (!ends.memory || !ends.process) return fail_errno(errno, "/proc/self");
  return ends;
}

FileCalls::FileCalls(UniqueFd listener, FileCallEnds ends) : listener_(std::move(listener)), ends_(std::move(ends)) {
  seccomp_notif_sizes sizes{};
  (void)::syscall(SYS_seccomp, SECCOMP_GET_NOTIF_SIZES, 0, &sizes);
  received_bytes_ = std::max<size_t>(sizes.seccomp_notif, sizeof(seccomp_notif));
  answer_bytes_ = std::max<size_t>(sizes.seccomp_notif_resp, sizeof(seccomp_notif_resp));
  // Since Linux 6.6: the two processes wake each other on one processor, which is faster.
  constexpr unsigned long kSetFlags = SECCOMP_IOW(4, __u64);
  constexpr unsigned long kSyncWakeUp = 1;
  (void)::ioctl(listener_.get(), kSetFlags, kSyncWakeUp);
}

std::optional<FileCall> FileCalls::receive() {
  for (;;) {
    Received received;
    {
      const LockGuard one(receiving_);  // the ioctl waits if there is no call
      pollfd event{listener_.get(), POLLIN, 0};
      if (::poll(&event, 1, 0) <= 0 || (event.revents & POLLIN) == 0) return std::nullopt;
      std::vector<uint64_t> bytes((received_bytes_ + sizeof(uint64_t) - 1) / sizeof(uint64_t));
      // ENOENT: the caller was killed meanwhile.
      if (::ioctl(listener_.get(), SECCOMP_IOCTL_NOTIF_RECV, bytes.data()) != 0) return std::nullopt;
      seccomp_notif notification;
      std::memcpy(&notification, bytes.data(), sizeof notification);
      received.id = notification.id;
      received.thread = notification.pid;
      received.number = notification.data.nr;
      std::ranges::copy(notification.data.args, received.arguments.begin());
    }
    FileCall call;
    if (decode(received, call)) return call;
  }
}

// False if the call was answered with an error.
bool FileCalls::decode(const Received& received, FileCall& call) const {
  auto& self = const_cast<FileCalls&>(*this);
  const auto refuse = [&](int code) {
    self.answer_number(received.id, 0, code, 0);
    return false;
  };
  const Form* form = form_of(received.number);
  if (form == nullptr) return refuse(ENOSYS);
  const std::string_view name = form->name;
  call.kind = form->kind;
  call.id = received.id;
  call.thread = received.thread;
  call.flags = static_cast<uint32_t>(received.argument(form->flags));
  call.mode = static_cast<uint32_t>(received.argument(form->mode));
  call.buffer = received.argument(form->buffer);
  call.size = received.argument(form->size);
  if (name == "creat") call.flags = O_CREAT | O_WRONLY | O_TRUNC;
  if (name == "lstat") call.flags = AT_SYMLINK_NOFOLLOW;
  if (call.kind == Kind::status_x) call.mask = std::exchange(call.mode, 0);
  if (call.kind == Kind::set_owner) {
    call.user = static_cast<uint32_t>(received.arguments[1]);
    call.group = static_cast<uint32_t>(received.arguments[2]);
  }
  if (form->path >= 0) {
    const size_t most = is_on_descriptor(call.kind) ? XATTR_NAME_MAX + 1 : PATH_MAX;
    if (!read_text(received.argument(form->path), most, call.path)) return refuse(EFAULT);
  }
  const auto open_at = [&](int index, const std::string& path, UniqueFd& at, int& number) {
    number = index < 0 ? AT_FDCWD : static_cast<int>(received.argument(index));
    if (number == AT_FDCWD || (path.starts_with('/') && !is_on_descriptor(call.kind))) return true;
    at = file_of(number);
    return static_cast<bool>(at);
  };
  if (!open_at(form->at, call.path, call.at, call.at_number)) return refuse(EBADF);
  if (form->to_path >= 0) {
    int unused = -1;
    if (!read_text(received.argument(form->to_path), PATH_MAX, call.to_path)) return refuse(EFAULT);
    if (!open_at(form->to_at, call.to_path, call.to_directory, unused)) return refuse(EBADF);
  }
  if (call.kind == Kind::set_attribute) {
    if (call.size > XATTR_SIZE_MAX) return refuse(E2BIG);
    call.value.resize(call.size);
    const ssize_t count = ::pread(ends_.memory.get(), call.value.data(), call.size, static_cast<off_t>(call.buffer));
    if (count != static_cast<ssize_t>(call.size)) return refuse(EFAULT);
  }
  // The address may be another program's by now if the caller was killed before its descriptors were looked at; then
  // no thread waits for an answer.
  return ::ioctl(listener_.get(), SECCOMP_IOCTL_NOTIF_ID_VALID, &call.id) == 0;
}

bool FileCalls::read_text(uint64_t address, size_t most, std::string& text) const {
  text.resize(most);
  // Less if the next page is not mapped.
  const ssize_t count = ::pread(ends_.memory.get(), text.data(), most, static_cast<off_t>(address));
  const size_t end = count <= 0 ? std::string::npos : text.substr(0, static_cast<size_t>(count)).find('\0');
  if (end == std::string::npos) return false;
  text.resize(end);
  return true;
}

void FileCalls::answer(const FileCall& call, const FileAnswer& answer) {
  if (answer.is_continued) return answer_number(call.id, 0, 0, SECCOMP_USER_NOTIF_FLAG_CONTINUE);
  if (answer.error != 0) return answer_number(call.id, 0, answer.error, 0);
  if (answer.fd) return answer_descriptor(call.id, answer.fd.get(), (call.flags & O_CLOEXEC) != 0);
  if (!answer.bytes.empty()) {
    const auto at = static_cast<off_t>(call.buffer);
    const ssize_t count = ::pwrite(ends_.memory.get(), answer.bytes.data(), answer.bytes.size(), at);
    if (count != static_cast<ssize_t>(answer.bytes.size())) return answer_number(call.id, 0, EFAULT, 0);
  }
  answer_number(call.id, answer.value, 0, 0);
}

// Fails only if the caller was killed.
void FileCalls::answer_number(uint64_t id, int64_t value, int error, uint32_t flags) {
  std::vector<uint64_t> bytes((answer_bytes_ + sizeof(uint64_t) - 1) / sizeof(uint64_t));
  const seccomp_notif_resp response{.id = id, .val = value, .error = -error, .flags = flags};
  std::memcpy(bytes.data(), &response, sizeof response);
  (void)::ioctl(listener_.get(), SECCOMP_IOCTL_NOTIF_SEND, bytes.data());
}

void FileCalls::answer_descriptor(uint64_t id, int fd, bool closes_on_exec) {
  seccomp_notif_addfd added{};
  added.id = id;
  added.flags = SECCOMP_ADDFD_FLAG_SEND;
  added.srcfd = static_cast<uint32_t>(fd);
  added.newfd_flags = closes_on_exec ? O_CLOEXEC : 0;
  if (::ioctl(listener_.get(), SECCOMP_IOCTL_NOTIF_ADDFD, &added) >= 0 || errno == ENOENT) return;
  int code = errno;
  if (code == EINVAL) {  // before Linux 5.14
    added.flags = 0;
    const int number = ::ioctl(listener_.get(), SECCOMP_IOCTL_NOTIF_ADDFD, &added);
    if (number >= 0) return answer_number(id, number, 0, 0);
    code = errno;
  }
  answer_number(id, 0, code == EMFILE ? EMFILE : EIO, 0);
}

std::string FileCalls::path_of(int number) const {
  std::string path(PATH_MAX, '\0');
  const std::string name = fmt::format("fd/{}", number);
  const ssize_t length = ::readlinkat(ends_.process.get(), name.c_str(), path.data(), path.size());
  path.resize(length > 0 ? static_cast<size_t>(length) : 0);
  return path;
}

UniqueFd FileCalls::file_of(int number) const {
  if (number < 0) return {};
  return UniqueFd(::openat(ends_.process.get(), fmt::format("fd/{}", number).c_str(), O_PATH | O_CLOEXEC));
}

int FileCalls::access_of(int number) const {
  const UniqueFd file(::openat(ends_.process.get(), fmt::format("fdinfo/{}", number).c_str(), O_RDONLY | O_CLOEXEC));
  std::array<char, 512> text{};
  const ssize_t count = file ? ::read(file.get(), text.data(), text.size() - 1) : -1;
  const std::string_view all(text.data(), static_cast<size_t>(std::max<ssize_t>(count, 0)));
  constexpr std::string_view kFlags = "flags:\t";
  const size_t at = all.find(kFlags);
  int flags = -1;
  if (at != all.npos) std::from_chars(all.data() + at + kFlags.size(), all.data() + all.size(), flags, 8);
  return flags < 0 ? -1 : flags & O_ACCMODE;
}

}  // namespace codecfs
