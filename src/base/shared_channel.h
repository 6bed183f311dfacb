#pragma once
// A connection between two processes for calls: the client sends a request, the server answers it, and so on. The bytes
// of a message are in shared memory that belongs to the connection; a datagram says that they are there.
//
//   client                                         server
//   auto [channel, theirs] = *Channel::make();     Channel channel(std::move(socket), std::move(memory));
//   channel.send(kind, head, bulk);                while (auto request = channel.receive()) {
//   auto answer = channel.receive();                 ... channel.send(0, head, bulk); }
//
// The peer may be hostile: it can change the shared memory at any time, but cannot shrink it. So a received head is a
// private copy, and `bulk` must be copied before it is checked. One thread at a time.

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/buffer.h"
#include "base/result.h"
#include "base/unique_fd.h"

namespace codecfs {

/// Beside the messages: what both ends may read and write during a call.
struct CallState {
  std::atomic<uint64_t> done = 0;
  std::atomic<uint64_t> total = 0;
  std::atomic<uint32_t> cancelled = 0;
  std::atomic<uint32_t> thread = 0;  // of the server: gettid(2)
};

class Channel {
 public:
  static constexpr uint64_t kLongestBody = uint64_t{8} << 30;  // bytes

  /// The descriptors of the other end, to be passed to another process.
  struct OtherEnd {
    UniqueFd socket;
    UniqueFd memory;
  };
  /// A new connection. ENOMEM, EMFILE.
  static Result<std::pair<Channel, OtherEnd>> make();
  /// The other end. Errors show at the first call.
  Channel(UniqueFd socket, UniqueFd memory) : socket_(std::move(socket)), memory_(std::move(memory)) {}
  Channel(Channel&& other) noexcept;
  Channel& operator=(Channel&&) = delete;
  ~Channel();

  struct Message {
    uint32_t kind = 0;
    std::string head;
    Bytes bulk;  // in shared memory; valid until the next send() or receive()
  };
  /// EPIPE if the other end is closed; ENOMEM if shared memory is exhausted.
  Result<> send(uint32_t kind, std::string_view head, Bytes bulk = {});
  /// Waits for a message. EPIPE if the other end is closed; EPROTO if it is no message or its head is longer than
  /// `most_head` bytes.
  Result<Message> receive(uint32_t most_head = UINT32_MAX);
  /// Valid until the next send() or receive(). Null if there is no memory.
  [[nodiscard]] CallState* state();
  [[nodiscard]] int socket() const { return socket_.get(); }

 private:
  struct Header {
    uint32_t kind = 0;
    uint32_t head = 0;  // bytes
    uint64_t bulk = 0;  // bytes
  };
  Result<> reserve(uint64_t bytes);
  Result<> map(uint64_t bytes);

  UniqueFd socket_;
  UniqueFd memory_;
  std::byte* mapped_ = nullptr;
  uint64_t size_ = 0;       // bytes mapped
  uint64_t allocated_ = 0;  // bytes that have pages, as far as this end has allocated them
};

}  // namespace codecfs
