#include "fs/passthrough/newer_protocol.h"

#include <linux/ioctl.h>
#include <sys/ioctl.h>
#include <sys/uio.h>
#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <cstring>
#include <optional>
#include <utility>

namespace codecfs::fs {
namespace {

// From <linux/fuse.h>, of which older versions lack this.
struct BackingMap {
  int32_t fd;
  uint32_t flags;
  uint64_t padding;
};
constexpr unsigned long kBackingOpen = _IOW(229, 1, BackingMap);
constexpr unsigned long kBackingClose = _IOW(229, 2, uint32_t);

}  // namespace

Result<int32_t> FuseBackingDevice::store(Bytes content) {
  CODECFS_ASSIGN(const UniqueFd file, files_.make(content));
  return open(file.get());
}

Result<int32_t> FuseBackingDevice::open(int file) {
  BackingMap map{.fd = file, .flags = 0, .padding = 0};
  const int id = ioctl(device_, kBackingOpen, &map);
  if (id <= 0) return fail_errno(id < 0 ? errno : EIO, "the kernel refuses a backing file");
  return id;  // the kernel holds the file
}

void FuseBackingDevice::close(int32_t id) {
  auto number = static_cast<uint32_t>(id);
  (void)ioctl(device_, kBackingClose, &number);
}

namespace {
std::atomic<bool> kernel_offers_it = false;
}

bool kernel_has_passthrough() { return kernel_offers_it; }

#if FUSE_VERSION >= FUSE_MAKE_VERSION(3, 17)

Result<> complete_replies(fuse_session*) { return {}; }

void complete_init(fuse_conn_info* connection, NewerFeatures offered) {
  if (!offered.passthrough) return;
  kernel_offers_it = fuse_set_feature_flag(connection, FUSE_CAP_PASSTHROUGH);
  // Filesystems can still be stacked over this mount.
  connection->max_backing_stack_depth = FUSE_BACKING_STACKED_UNDER;
}

int reply_open(fuse_req_t request, const fuse_file_info& info, int32_t backing_id) {
  fuse_file_info opened = info;
  opened.backing_id = backing_id;
  return fuse_reply_open(request, &opened);
}

#elif FUSE_VERSION >= FUSE_MAKE_VERSION(3, 14)

namespace {

// From <linux/fuse.h>. The replies of libfuse 3.14 have the same layout with zeros in the members that it does not
// know.
struct RequestHead {
  uint32_t length;
  uint32_t opcode;
  uint64_t unique;
  uint64_t node;
  uint32_t uid;
  uint32_t gid;
  uint32_t pid;
  uint32_t padding;
};
struct InitRequest {
  uint32_t major;
  uint32_t minor;
  uint32_t max_readahead;
  uint32_t flags;
  uint32_t flags2;
};
struct InitReply {
  uint32_t major;
  uint32_t minor;
  uint32_t max_readahead;
  uint32_t flags;
  uint16_t max_background;
  uint16_t congestion_threshold;
  uint32_t max_write;
  uint32_t time_gran;
  uint16_t max_pages;
  uint16_t map_alignment;
  uint32_t flags2;
  uint32_t max_stack_depth;
};
struct OpenReply {
  uint64_t handle;
  uint32_t open_flags;
  int32_t backing_id;
};
static_assert(sizeof(RequestHead) == 40 && offsetof(InitReply, max_stack_depth) == 36 && sizeof(OpenReply) == 16);

constexpr uint32_t kInitOpcode = 26;
constexpr uint32_t kParallelDirOps = 1U << 18;    // FUSE_PARALLEL_DIROPS
constexpr uint32_t kInitExtended = 1U << 30;      // FUSE_INIT_EXT: flags2 is valid
constexpr uint32_t kPassthroughFlag2 = 1U << 5;   // FUSE_PASSTHROUGH
constexpr uint32_t kOpenedWithBacking = 1U << 7;  // FOPEN_PASSTHROUGH
// The backing files are on no stacked filesystem; filesystems can still be stacked over this mount.
constexpr uint32_t kStackDepth = 1;

std::atomic<bool> kernel_has_parallel_lookups = false;

/// What the reply that this thread sends next needs.
thread_local std::optional<NewerFeatures> missing_in_init;
thread_local int32_t completes_open = 0;  // the id

// The thread that reads may be cancelled by libfuse in read(): these functions must let the cancellation through.

ssize_t read_request(int device, void* buffer, size_t size, void*) {
  const ssize_t count = read(device, buffer, size);
  RequestHead head{};
  InitRequest init{};
  if (count < static_cast<ssize_t>(sizeof head + sizeof init)) return count;
  std::memcpy(&head, buffer, sizeof head);
  if (head.opcode != kInitOpcode) return count;
  std::memcpy(&init, static_cast<const char*>(buffer) + sizeof head, sizeof init);
  kernel_has_parallel_lookups = (init.flags & kParallelDirOps) != 0;
  kernel_offers_it = (init.flags & kInitExtended) != 0 && (init.flags2 & kPassthroughFlag2) != 0;
  return count;
}

ssize_t write_reply(int device, iovec* parts, int count, void*) {
  // libfuse sends a reply in two parts: its head, and its body, which is libfuse's to change.
  const bool has_body = count == 2;
  const auto missing = std::exchange(missing_in_init, std::nullopt);
  if (missing && has_body && parts[1].iov_len >= sizeof(InitReply)) {
    InitReply reply;
    std::memcpy(&reply, parts[1].iov_base, sizeof reply);
    if (missing->parallel_lookups && kernel_has_parallel_lookups) reply.flags |= kParallelDirOps;
    if (missing->passthrough && kernel_offers_it) {
      reply.flags |= kInitExtended;
      reply.flags2 |= kPassthroughFlag2;
      reply.max_stack_depth = kStackDepth;
    }
    std::memcpy(parts[1].iov_base, &reply, sizeof reply);
  }
  if (const int32_t id = std::exchange(completes_open, 0);
      id != 0 && has_body && parts[1].iov_len == sizeof(OpenReply)) {
    OpenReply reply;
    std::memcpy(&reply, parts[1].iov_base, sizeof reply);
    reply.open_flags |= kOpenedWithBacking;
    reply.backing_id = id;
    std::memcpy(parts[1].iov_base, &reply, sizeof reply);
  }
  return writev(device, parts, count);
}

}  // namespace

Result<> complete_replies(fuse_session* session) {
  fuse_custom_io hooks{};
  hooks.writev = write_reply;
  hooks.read = read_request;
  const int error = fuse_session_custom_io(session, &hooks, fuse_session_fd(session));
  if (error != 0) return fail_errno(-error, "libfuse accepts no input and output functions");
  return {};
}

void complete_init(fuse_conn_info*, NewerFeatures offered) { missing_in_init = offered; }

int reply_open(fuse_req_t request, const fuse_file_info& info, int32_t backing_id) {
  completes_open = backing_id;
  return fuse_reply_open(request, &info);
}

#else

Result<> complete_replies(fuse_session*) { return {}; }
void complete_init(fuse_conn_info*, NewerFeatures) {}
int reply_open(fuse_req_t request, const fuse_file_info& info, int32_t) { return fuse_reply_open(request, &info); }

#endif

}  // namespace codecfs::fs
