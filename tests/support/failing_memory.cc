#include "support/failing_memory.h"

#include <cstdlib>

namespace codecfs {
namespace {

thread_local bool is_armed = false;
thread_local bool is_over = false;
thread_local int left = 0;

bool fails() {
  if (!is_armed || is_over || left-- > 0) return false;
  is_over = true;
  return true;
}

void* allocate(std::size_t size) {
  if (fails()) throw std::bad_alloc();
  while (true) {
    if (void* const block = std::malloc(size != 0 ? size : 1)) return block;
    const std::new_handler handler = std::get_new_handler();
    if (handler == nullptr) throw std::bad_alloc();
    handler();
  }
}

}  // namespace

FailingMemory::FailingMemory(int passed) {
  left = passed;
  is_over = false;
  is_armed = true;
}

FailingMemory::~FailingMemory() { is_armed = false; }

bool FailingMemory::has_failed() { return is_over; }

}  // namespace codecfs

// The standard library's other forms call these.
void* operator new(std::size_t size) { return codecfs::allocate(size); }
void* operator new[](std::size_t size) { return codecfs::allocate(size); }
void operator delete(void* block) noexcept { std::free(block); }
void operator delete[](void* block) noexcept { std::free(block); }
void operator delete(void* block, std::size_t) noexcept { std::free(block); }
void operator delete[](void* block, std::size_t) noexcept { std::free(block); }
