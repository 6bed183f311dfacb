#include "backends/hdf5/library/captured_reads.h"

namespace codecfs::hdf5 {
namespace {

thread_local Captured* captured = nullptr;

}  // namespace

CapturedReads::CapturedReads() { captured = &seen_; }
CapturedReads::~CapturedReads() { captured = nullptr; }

bool CapturedReads::note(uint64_t address, uint64_t size) {
  if (captured == nullptr) return false;
  captured->address = address;
  captured->size = size;
  ++captured->reads;
  return true;
}

}  // namespace codecfs::hdf5
