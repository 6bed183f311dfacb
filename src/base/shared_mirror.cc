#include "base/shared_mirror.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <span>

namespace codecfs {

namespace {

constexpr uint64_t kMaxBytes = uint64_t{1} << 46;  // of a file

uint64_t pages_of(uint64_t size) { return (size + SharedMirror::kPage - 1) / SharedMirror::kPage; }
uint64_t presence_bytes(uint64_t size) { return SharedMirror::kPage + pages_of(size); }

}  // namespace

Result<SharedMirror> SharedMirror::make(uint64_t size) {
  if (size > kMaxBytes) return fail(EFBIG, "{} bytes are too many for one file", size);
  UniqueFd content(::memfd_create("codecfs-mirror", MFD_CLOEXEC));
  UniqueFd presence(::memfd_create("codecfs-mirror-pages", MFD_CLOEXEC));
  if (!content || !presence || ::ftruncate(content.get(), static_cast<off_t>(size)) != 0 ||
      ::ftruncate(presence.get(), static_cast<off_t>(presence_bytes(size))) != 0)
    return fail_errno(errno, "cannot create shared memory");
  SharedMirror mirror(std::move(content), std::move(presence), size);
  CODECFS_TRY(mirror.map(PROT_READ | PROT_WRITE));
  return mirror;
}

Result<SharedMirror::Descriptors> SharedMirror::for_reader() const {
  const auto open_again = [](const UniqueFd& fd) {
    return UniqueFd(::open(fmt::format("/proc/self/fd/{}", fd.get()).c_str(), O_RDONLY | O_CLOEXEC));
  };
  Descriptors made{open_again(content_), open_again(presence_fd_)};
  if (!made.content || !made.presence) return fail_errno(errno, "cannot open shared memory for reading");
  return made;
}

Result<SharedMirror> SharedMirror::attach(Descriptors descriptors) {
  struct stat content{};
  struct stat presence{};
  if (::fstat(descriptors.content.get(), &content) != 0 || ::fstat(descriptors.presence.get(), &presence) != 0)
    return fail_errno(errno, "shared memory");
  const auto size = static_cast<uint64_t>(content.st_size);
  if (size > kMaxBytes || static_cast<uint64_t>(presence.st_size) != presence_bytes(size))
    return fail(EINVAL, "shared memory has another size than that of a mirror");
  SharedMirror mirror(std::move(descriptors.content), std::move(descriptors.presence), size);
  CODECFS_TRY(mirror.map(PROT_READ));
  return mirror;
}

Result<> SharedMirror::map(int protection) {
  void* at = ::mmap(nullptr, presence_bytes(size_), protection, MAP_SHARED | MAP_NORESERVE, presence_fd_.get(), 0);
  if (at == MAP_FAILED) return fail_errno(errno, "cannot map shared memory");
  drops_ = static_cast<std::atomic<uint64_t>*>(at);
  pages_ = reinterpret_cast<std::atomic<uint8_t>*>(static_cast<std::byte*>(at) + kPage);
  return {};
}

SharedMirror::SharedMirror(SharedMirror&& other) noexcept
    : content_(std::move(other.content_)),
      presence_fd_(std::move(other.presence_fd_)),
      size_(other.size_),
      drops_(std::exchange(other.drops_, nullptr)),
      pages_(std::exchange(other.pages_, nullptr)) {}

SharedMirror::~SharedMirror() {
  if (drops_ != nullptr) ::munmap(drops_, presence_bytes(size_));
}

bool SharedMirror::has(uint64_t offset, uint64_t size) const {
  if (offset > size_ || size > size_ - offset) return false;
  const uint64_t end = pages_of(offset + size);
  return std::all_of(pages_ + offset / kPage, pages_ + (size == 0 ? offset / kPage : end),
                     [](const std::atomic<uint8_t>& page) { return page.load(std::memory_order_acquire) != 0; });
}

Result<bool> SharedMirror::read(uint64_t offset, MutableBytes to) const {
  for (;;) {
    const uint64_t drops = drops_->load();
    if (!has(offset, to.size())) return false;
    for (size_t done = 0; done < to.size();) {
      const ssize_t count =
          ::pread(content_.get(), to.data() + done, to.size() - done, static_cast<off_t>(offset + done));
      if (count < 0 && errno == EINTR) continue;
      if (count <= 0) return fail_errno(count < 0 ? errno : EIO, "cannot read shared memory");
      done += static_cast<size_t>(count);
    }
    std::atomic_thread_fence(std::memory_order_seq_cst);
    if (drops_->load() == drops) return true;
  }
}

Result<> SharedMirror::store(uint64_t offset, Bytes bytes) {
  for (size_t done = 0; done < bytes.size();) {
    const ssize_t count =
        ::pwrite(content_.get(), bytes.data() + done, bytes.size() - done, static_cast<off_t>(offset + done));
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return fail_errno(count < 0 ? errno : ENOMEM, "no memory for {} bytes", bytes.size());
    done += static_cast<size_t>(count);
  }
  const uint64_t end = pages_of(offset + bytes.size());
  for (uint64_t page = offset / kPage; page < end; ++page) pages_[page].store(1, std::memory_order_release);
  return {};
}

void SharedMirror::drop(uint64_t offset, uint64_t size) {
  if (offset >= size_ || size == 0) return;
  const uint64_t end = pages_of(std::min(size_, offset + size));
  for (uint64_t page = offset / kPage; page < end; ++page) pages_[page].store(0);
  ++*drops_;
  (void)::fallocate(content_.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(offset),
                    static_cast<off_t>(end * kPage - offset));
}

}  // namespace codecfs
