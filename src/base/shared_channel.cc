#include "base/shared_channel.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <new>

#include "base/fail_points.h"
#include "base/fd_passing.h"

namespace codecfs {
namespace {

constexpr uint64_t kStateBytes = 4096;               // the CallState, then messages
constexpr uint64_t kKept = uint64_t{4} << 20;        // bytes that a connection keeps between calls
constexpr uint64_t kRounding = uint64_t{256} << 10;  // bytes

}  // namespace

Result<std::pair<Channel, Channel::OtherEnd>> Channel::make() {
  UniqueFd memory(::memfd_create("codecfs-call", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!memory || ::ftruncate(memory.get(), kStateBytes + kRounding) != 0 ||
      ::fcntl(memory.get(), F_ADD_SEALS, F_SEAL_SHRINK) != 0)
    return fail_errno(errno, "cannot create shared memory");
  std::array<int, 2> ends{};
  if (FailPoints::fails(FailPoint::descriptor) ||
      ::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()) != 0)
    return fail_errno(errno, "cannot create a socket");
  OtherEnd other{UniqueFd(ends[1]), UniqueFd(::fcntl(memory.get(), F_DUPFD_CLOEXEC, 0))};
  if (!other.memory) return fail_errno(errno, "cannot create shared memory");
  Channel channel{UniqueFd(ends[0]), std::move(memory)};
  CODECFS_TRY(channel.map(kStateBytes + kRounding));
  new (channel.mapped_) CallState;
  return std::pair(std::move(channel), std::move(other));
}

Channel::Channel(Channel&& other) noexcept
    : socket_(std::move(other.socket_)),
      memory_(std::move(other.memory_)),
      mapped_(std::exchange(other.mapped_, nullptr)),
      size_(std::exchange(other.size_, 0)),
      allocated_(std::exchange(other.allocated_, 0)) {}

Channel::~Channel() {
  if (mapped_ != nullptr) ::munmap(mapped_, size_);
}

Result<> Channel::map(uint64_t bytes) {
  if (bytes <= size_) return {};
  struct stat status{};
  if (::fstat(memory_.get(), &status) != 0 || status.st_size < 0 || static_cast<uint64_t>(status.st_size) < bytes)
    return fail(EPROTO, "a message is longer than its memory");
  const auto size = static_cast<uint64_t>(status.st_size);
  void* at = mapped_ == nullptr ? ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, memory_.get(), 0)
                                : ::mremap(mapped_, size_, size, MREMAP_MAYMOVE);
  if (at == MAP_FAILED) return fail(ENOMEM, "cannot map {} bytes of shared memory", size);
  mapped_ = static_cast<std::byte*>(at);
  size_ = size;
  return {};
}

// Allocates the pages, because writing to a page for which there is no memory would end the process.
Result<> Channel::reserve(uint64_t bytes) {
  if (bytes > kLongestBody) return fail(EMSGSIZE, "a message of {} bytes is too long", bytes);
  const uint64_t rounded = (kStateBytes + bytes + kRounding - 1) / kRounding * kRounding;
  if (allocated_ > kKept && rounded <= kKept) {
    (void)::fallocate(memory_.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(kKept),
                      static_cast<off_t>(size_ - kKept));
    allocated_ = kKept;
  }
  // Both ends free only what is beyond kKept.
  if (rounded <= std::min(allocated_, kKept)) return {};
  int status = 0;
  do status = ::fallocate(memory_.get(), 0, 0, static_cast<off_t>(rounded));
  while (status != 0 && errno == EINTR);
  if (status != 0) return fail(ENOMEM, "there is no memory for a message of {} bytes", bytes);
  CODECFS_TRY(map(rounded));
  allocated_ = std::max(allocated_, rounded);
  return {};
}

Result<> Channel::send(uint32_t kind, std::string_view head, Bytes bulk) {
  const Header header{kind, static_cast<uint32_t>(head.size()), bulk.size()};
  if (head.size() > UINT32_MAX) return fail(EMSGSIZE, "a message is too long");
  CODECFS_TRY(reserve(head.size() + bulk.size()));
  if (!head.empty()) std::memcpy(mapped_ + kStateBytes, head.data(), head.size());
  if (!bulk.empty()) std::memcpy(mapped_ + kStateBytes + head.size(), bulk.data(), bulk.size());
  const std::string_view datagram(reinterpret_cast<const char*>(&header), sizeof header);
  if (!send_datagram(socket_.get(), datagram)) return fail_errno(errno, "the other process has ended");
  return {};
}

Result<Channel::Message> Channel::receive(uint32_t most_head) {
  const Datagram datagram = receive_datagram(socket_.get(), sizeof(Header));
  if (datagram.bytes.empty()) return fail(EPIPE, "the other process has ended");
  Header header;
  if (datagram.bytes.size() != sizeof header) return fail(EPROTO, "not a message");
  std::memcpy(&header, datagram.bytes.data(), sizeof header);
  if (header.head > most_head) return fail(EPROTO, "the head of a message has {} bytes", header.head);
  if (header.bulk > kLongestBody) return fail(EPROTO, "a message says that it has {} bytes", header.bulk);
  CODECFS_TRY(map(kStateBytes + header.head + header.bulk));
  const auto* body = mapped_ + kStateBytes;
  return Message{.kind = header.kind,
                 .head = std::string(reinterpret_cast<const char*>(body), header.head),
                 .bulk = Bytes(body + header.head, header.bulk)};
}

CallState* Channel::state() {
  if (!map(kStateBytes)) return nullptr;
  return std::launder(reinterpret_cast<CallState*>(mapped_));
}

}  // namespace codecfs
