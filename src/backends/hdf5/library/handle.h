#pragma once
// Owns an identifier of libhdf5 (file, dataset, type, property list, ...). Destroy a Handle under a LibraryLock,
// because closing calls the library.

#include <hdf5.h>

#include <utility>

namespace codecfs::hdf5 {

class Handle {
 public:
  Handle() = default;
  explicit Handle(hid_t id) : id_(id) {}
  Handle(Handle&& other) noexcept : id_(std::exchange(other.id_, H5I_INVALID_HID)) {}
  Handle& operator=(Handle&& other) noexcept {
    if (this != &other) {
      reset();
      id_ = std::exchange(other.id_, H5I_INVALID_HID);
    }
    return *this;
  }
  ~Handle() { reset(); }

  [[nodiscard]] hid_t get() const { return id_; }
  [[nodiscard]] explicit operator bool() const { return id_ >= 0; }
  void reset() { (void)close(); }
  /// False if libhdf5 reports an error.
  bool close() { return id_ < 0 || H5Idec_ref(std::exchange(id_, H5I_INVALID_HID)) >= 0; }

 private:
  hid_t id_ = H5I_INVALID_HID;
};

}  // namespace codecfs::hdf5
