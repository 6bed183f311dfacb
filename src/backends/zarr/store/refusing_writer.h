#pragma once
// The writer of a store that is only read: EROFS for all changes. Thread-safe.

#include <memory>
#include <span>
#include <string>

#include "backends/zarr/store/store_writer.h"

namespace codecfs::zarr {

class RefusingWriter final : public StoreWriter {
 public:
  Result<> begin() override { return refuse(); }
  Result<> write(const std::string&, const std::string&, Bytes, mode_t) override { return refuse(); }
  Result<> write_parts(const std::string&, const std::string&, std::span<const StorePart>, mode_t) override {
    return refuse();
  }
  Result<> remove(const std::string&, const std::string&) override { return refuse(); }
  Result<std::unique_ptr<NewDirectory>> new_directory(const std::string&, const std::string&, mode_t) override {
    return refuse();
  }
  Result<std::unique_ptr<NewDirectory>> new_store(mode_t) override { return refuse(); }
  Result<> exchange_store(NewDirectory&) override { return refuse(); }
  Result<std::unique_ptr<NewDirectory>> remove_directory(const std::string&, const std::string&) override {
    return refuse();
  }
  Result<> move(const std::string&, const std::string&, const std::string&, const std::string&) override {
    return refuse();
  }
  void remove_leftovers_beside() override {}
  void note_change(const std::string&) override {}
  Result<> order(const std::string&) override { return {}; }
  Result<> order() override { return {}; }
  Result<> sync_inherited() override { return {}; }
  Result<> commit() override { return {}; }
  Result<bool> commit_at_interval() override { return true; }
  Result<> end() override { return {}; }

 private:
  static std::unexpected<Error> refuse() { return fail(EROFS, "datasets in object stores are read-only"); }
};

}  // namespace codecfs::zarr
