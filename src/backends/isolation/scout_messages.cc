#include "backends/isolation/scout_messages.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstring>

#include "base/fd_passing.h"

namespace codecfs::hdf5 {
namespace {

Result<UniqueFd> memory_of(Bytes bytes) {
  UniqueFd memory(::memfd_create("codecfs-answer", MFD_CLOEXEC));
  if (!memory) return fail_errno(errno, "cannot create shared memory");
  while (!bytes.empty()) {
    const ssize_t count = ::write(memory.get(), bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return fail_errno(ENOMEM, "cannot create shared memory");
    bytes = bytes.subspan(static_cast<size_t>(count));
  }
  return memory;
}

Result<Buffer> contents_of(int fd, uint64_t size) {
  CODECFS_ASSIGN(Buffer buffer, Buffer::allocate(size));
  for (uint64_t at = 0; at < size;) {
    const ssize_t count = ::pread(fd, buffer.data() + at, size - at, static_cast<off_t>(at));
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return fail(EIO, "an answer of {} bytes ends after {}", size, at);
    at += static_cast<uint64_t>(count);
  }
  return buffer;
}

}  // namespace

bool send_request(int socket, const ScoutRequest& head, std::string_view text, std::span<const uint64_t> addresses) {
  ScoutRequest request = head;
  request.text = static_cast<uint32_t>(text.size());
  std::string bytes(reinterpret_cast<const char*>(&request), sizeof request);
  bytes += text;
  bytes.append(reinterpret_cast<const char*>(addresses.data()), addresses.size_bytes());
  return bytes.size() <= kLongestMessage && send_datagram(socket, bytes);
}

std::optional<ReceivedRequest> receive_request(int socket) {
  const std::string bytes = receive_datagram(socket, kLongestMessage).bytes;
  ReceivedRequest request;
  if (bytes.size() < sizeof request.head) return std::nullopt;
  std::memcpy(&request.head, bytes.data(), sizeof request.head);
  const std::string_view rest = std::string_view(bytes).substr(sizeof request.head);
  if (request.head.text > rest.size()) return std::nullopt;
  request.text = rest.substr(0, request.head.text);
  const std::string_view addresses = rest.substr(request.head.text);
  request.addresses.resize(addresses.size() / sizeof(uint64_t));
  if (!request.addresses.empty())
    std::memcpy(request.addresses.data(), addresses.data(), request.addresses.size() * sizeof(uint64_t));
  return request;
}

bool send_answer(int socket, const Result<ScoutGift>& answer) {
  ScoutAnswer head;
  std::string text;
  UniqueFd memory;
  if (!answer) {
    head.code = answer.error().code;
    text = answer.error().reason.substr(0, kLongestMessage / 2);
  } else if (*answer) {
    Result<UniqueFd> made = memory_of((**answer).bytes());
    if (!made) return send_answer(socket, pass_on(made));
    memory = *std::move(made);
    head.bytes = (**answer).size();
  }
  const int fd = memory.get();
  return send_datagram(socket, std::string(reinterpret_cast<const char*>(&head), sizeof head) + text,
                       std::span(&fd, memory ? 1 : 0));
}

std::optional<Result<ScoutGift>> receive_answer(int socket) {
  const auto [bytes, fds] = receive_datagram(socket, kLongestMessage);
  ScoutAnswer head;
  if (bytes.size() < sizeof head) return std::nullopt;
  std::memcpy(&head, bytes.data(), sizeof head);
  if (head.code != 0) return fail(static_cast<int>(head.code), "{}", std::string_view(bytes).substr(sizeof head));
  if (fds.empty()) return Result<ScoutGift>(std::nullopt);
  auto buffer = contents_of(fds.front().get(), head.bytes);
  if (!buffer) return Result<ScoutGift>(pass_on(buffer));
  return Result<ScoutGift>(*std::move(buffer));
}

}  // namespace codecfs::hdf5
