#include "backends/worker/fetch_slots.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <thread>

#include "backends/worker/calls.h"

namespace codecfs::worker {
namespace {

void futex_wait(std::atomic<uint32_t>& word, uint32_t value) {
  (void)::syscall(SYS_futex, reinterpret_cast<uint32_t*>(&word), FUTEX_WAIT, value, nullptr, nullptr, 0);
}

void futex_wake(std::atomic<uint32_t>& word) {
  (void)::syscall(SYS_futex, reinterpret_cast<uint32_t*>(&word), FUTEX_WAKE, 1, nullptr, nullptr, 0);
}

}  // namespace

Result<UniqueFd> make_fetch_slots() {
  UniqueFd fd(::memfd_create("codecfs-fetches", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  // A process that could shrink it could end the daemon.
  if (!fd || ::ftruncate(fd.get(), sizeof(FetchSlots)) != 0 ||
      ::fcntl(fd.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0)
    return fail_errno(errno, "cannot create shared memory");
  return fd;
}

std::shared_ptr<FetchSlots> map_fetch_slots(int fd) {
  void* at = ::mmap(nullptr, sizeof(FetchSlots), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (at == MAP_FAILED) return nullptr;
  return {static_cast<FetchSlots*>(at), [](FetchSlots* slots) { ::munmap(slots, sizeof(FetchSlots)); }};
}

void answer_fetch(FetchSlots& slots, uint32_t number, const Result<>& result) {
  FetchSlots::Slot& slot = slots.slots[number];
  slot.error = result ? 0 : result.error().code;
  if (!result) {
    const std::string& reason = result.error().reason;
    const size_t size = std::min(reason.size(), slot.reason.size() - 1);
    std::memcpy(slot.reason.data(), reason.data(), size);
    slot.reason[size] = '\0';
  }
  slot.state = FetchSlots::done;
  futex_wake(slot.state);
}

Result<> FetchedMirror::request(const remote::ByteRange& range) {
  for (;;) {
    for (uint64_t number = 0; number < slots_->slots.size(); ++number) {
      FetchSlots::Slot& slot = slots_->slots[number];
      uint32_t expected = FetchSlots::free;
      if (!slot.state.compare_exchange_strong(expected, FetchSlots::taken)) continue;
      const FetchRequest request{number, range};
      Result<> result;
      if (send_note(control_, {}, Note::fetch, request)) {
        while (slot.state == FetchSlots::taken) futex_wait(slot.state, FetchSlots::taken);
        if (slot.error != 0) result = fail(slot.error, "{}", slot.reason.data());
      } else {
        result = fail(EIO, "the daemon has ended");
      }
      slot.state = FetchSlots::free;
      return result;
    }
    std::this_thread::yield();  // there are more slots than threads, as a rule
  }
}

Result<> FetchedMirror::read(uint64_t offset, MutableBytes to) {
  if (offset > mirror_.size() || to.size() > mirror_.size() - offset)
    return fail(EIO, "{} bytes at {} are beyond the end", to.size(), offset);
  for (size_t done = 0; done < to.size();) {
    const MutableBytes part = to.subspan(done).first(std::min<uint64_t>(kMax, to.size() - done));
    CODECFS_ASSIGN(const bool is_read, mirror_.read(offset + done, part));
    if (is_read)
      done += part.size();
    else
      CODECFS_TRY(request({offset + done, part.size()}));
  }
  return {};
}

}  // namespace codecfs::worker
