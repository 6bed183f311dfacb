// The header describes the algorithm. exchange() runs under one LibraryLock, so other commits are either before or
// after it.

#include "backends/hdf5/recode/recode.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "backends/hdf5/library/filter_registration.h"
#include "backends/hdf5/library/hdf5_version.h"
#include "backends/hdf5/library/library_lock.h"
#include "backends/hdf5/library/library_read.h"
#include "backends/hdf5/wal/kept_space.h"
#include "base/endian.h"
#include "base/parallel.h"

namespace codecfs::hdf5 {
namespace {

constexpr uint64_t kCommitEvery = uint64_t{64} << 20;     // bytes of chunks
constexpr uint64_t kRoomForExchange = uint64_t{4} << 20;  // bytes of metadata
constexpr uint64_t kWorthPacking = uint64_t{64} << 10;    // bytes of growth of the file
constexpr size_t kNumbersAtOnce = 1024;
constexpr size_t kLongestComment = 60000;  // a message has at most 64 KiB

constexpr std::array kStorage = {MessageType::layout, MessageType::filters, MessageType::fill, MessageType::old_fill};

/// A pipeline without flags leaves those of a dataset that has the same filters and parameters.
void keep_flags(std::vector<FilterStage>& chain, std::span<const FilterStage> stored) {
  const bool is_same = std::ranges::equal(chain, stored, [](const FilterStage& a, const FilterStage& b) {
    return a.id == b.id && a.parameters == b.parameters;
  });
  if (!is_same) return;
  for (size_t i = 0; i < chain.size(); ++i)
    if (!chain[i].has_flag) chain[i].optional = stored[i].optional;
}

Result<std::string> comment_of(hid_t object) {
  const ssize_t size = H5Oget_comment(object, nullptr, 0);
  if (size < 0) return fail_library(EIO, "the comment of an object");
  std::string comment(static_cast<size_t>(size) + 1, '\0');
  if (size > 0 && H5Oget_comment(object, comment.data(), comment.size()) < 0)
    return fail_library(EIO, "the comment of an object");
  comment.resize(static_cast<size_t>(size));
  return comment;
}

}  // namespace

// libhdf5 removes an unlinked dataset at close, which writes a little.
Recoding::~Recoding() {
  const ChangeTurn turn(file_);
  const LibraryLock lock;
  if (second_) (void)file_.allow_change(kRoomForExchange);
  second_.reset();
  form_.type.reset();
}

Result<bool> Recoding::prepare(std::span<const FilterStage> chain) {
  const Variable& facts = dataset_.facts();
  if (facts.storage == Storage::virtual_sources)
    return fail(EOPNOTSUPP, "{}: its data is in the sources of a virtual dataset; re-encode those", dataset_.name());
  if (facts.storage == Storage::external)
    return fail(EOPNOTSUPP, "{}: its data is in external files, which have no filters", dataset_.name());
  CODECFS_ASSIGN(form_, dataset_.file_form());
  auto complete = complete_chain(chain, form_.shape);
  if (!complete) return fail(complete.error().code, "{}: {}", dataset_.name(), complete.error().reason);
  keep_flags(*complete, facts.filters);
  if (is_same_chain(*complete, facts.filters)) return false;
  const ChangeTurn turn(file_);
  {
    const LibraryLock lock;
    const Handle space(H5Dget_space(dataset_.id()));
    if (H5Sget_simple_extent_type(space.get()) != H5S_SIMPLE)
      return fail(EINVAL, "{}: HDF5 has no filters for a single value or none", dataset_.name());
    CODECFS_TRY(file_.begin_writing());
  }
  const LibraryRead library;
  size_before_ = file_.bytes->size();
  return prepare_second(*complete);
}

Result<> Recoding::prepare_packing() {
  packs_ = true;
  CODECFS_ASSIGN(form_, dataset_.file_form());
  const ChangeTurn turn(file_);
  const LibraryRead library;
  CODECFS_TRY(prepare_second(dataset_.facts().filters));
  return {};
}

Result<bool> Recoding::prepare_masked() {
  is_in_place_ = true;
  if (dataset_.facts().storage != Storage::chunked) return false;
  CODECFS_ASSIGN(form_, dataset_.file_form());
  if (!form_.pipeline) return false;
  pipeline_ = form_.pipeline;
  raw_partial_chunks_ = dataset_.has_raw_partial_chunks();
  const ChangeTurn turn(file_);
  const LibraryLock lock;
  CODECFS_TRY(file_.begin_writing());
  return true;
}

bool Recoding::fits_into_hole() const {
  // Each exchange costs some hundred bytes of metadata, because libhdf5 loses track of free space when it closes the
  // file.
  if (file_.bytes->size() <= size_before_ + kWorthPacking) return false;
  const Handle first(open_object(file_.file.get(), address_));
  const hssize_t free = H5Fget_freespace(file_.file.get());
  return first && free > 0 && H5Dget_storage_size(first.get()) <= static_cast<uint64_t>(free);
}

// Copies the properties of the first dataset except for storage and filters.
Result<bool> Recoding::prepare_second(const std::vector<FilterStage>& chain) {
  const hid_t first = dataset_.id();
  const Handle space(H5Dget_space(first));
  const Handle properties(H5Dget_create_plist(first));
  const Handle creation(H5Fget_create_plist(file_.file.get()));
  hsize_t user_block = 0;
  if (!space || !properties || H5Pget_userblock(creation.get(), &user_block) < 0 ||
      H5Pget_sizes(creation.get(), &format_.offset_size, &format_.length_size) < 0)
    return fail_library(EIO, "{}: how it is stored", dataset_.name());
  format_.base = user_block;

  std::array<hsize_t, H5S_MAX_RANK> chunk{};
  std::copy_n(dataset_.facts().grid.chunks().begin(), dataset_.rank(), chunk.begin());
  unsigned options = 0;
  if (dataset_.facts().storage == Storage::chunked && H5Pget_chunk_opts(properties.get(), &options) < 0)
    return fail_library(EIO, "{}: the options of its chunks", dataset_.name());
  if (H5Premove_filter(properties.get(), H5Z_FILTER_ALL) < 0 ||
      H5Pset_chunk(properties.get(), static_cast<int>(dataset_.rank()), chunk.data()) < 0 ||
      (options != 0 && H5Pset_chunk_opts(properties.get(), options) < 0) ||
      H5Pset_alloc_time(properties.get(), H5D_ALLOC_TIME_INCR) < 0)
    return fail_library(EIO, "{}: the properties of its new storage", dataset_.name());
  auto added = add_filters(properties.get(), chain);
  if (!added) return fail(added.error().code, "{}: {}", dataset_.name(), added.error().reason);

  raw_partial_chunks_ = (options & H5D_CHUNK_DONT_FILTER_PARTIAL_CHUNKS) != 0;

  CODECFS_TRY(file_.allow_risky_change(kRoomForExchange, kRoomForExchange));
  {
    KeptParameters kept;
    CODECFS_TRY(kept.keep(chain));
    second_ = Handle(H5Dcreate_anon(file_.file.get(), form_.type.get(), space.get(), properties.get(), H5P_DEFAULT));
  }
  if (!second_) return fail_library(EINVAL, "{}: libhdf5 makes no such dataset", dataset_.name());
  ObjectInfo info;
  const Handle made(H5Dget_create_plist(second_.get()));
  if (!made || !object_info(second_.get(), info))
    return file_.change_failed(fail_library(EIO, "{}: its new storage", dataset_.name()));
  if (Result<> flushed = file_.flush_in_library(); !flushed)
    return file_.change_failed(std::unexpected(flushed.error()));
  second_address_ = info.address;
  --file_.changes;  // losing an unlinked dataset is not a lost change
  CODECFS_ASSIGN(chain_, stored_chain(made.get()));
  std::vector<FilterStage> asked = chain_;  // as set_local completed it, with the flags that were given
  for (size_t i = 0; i < asked.size(); ++i) asked[i].has_flag = chain[i].has_flag;
  keep_flags(asked, dataset_.facts().filters);
  if (is_same_chain(asked, dataset_.facts().filters) != packs_) return false;
  auto pipeline = filters::Pipeline::make(chain_, form_.shape);
  if (!pipeline) return fail(EINVAL, "{}: {}", dataset_.name(), pipeline.error().reason);
  pipeline_ = *std::move(pipeline);
  // Detect headers that cannot be exchanged before hours of work.
  CODECFS_ASSIGN(const Headers headers, read_headers());
  CODECFS_TRY(check_headers(headers));
  return true;
}

Result<> Recoding::copy(Progress& progress) {
  if (dataset_.facts().storage == Storage::chunked) {
    const LibraryLock lock;
    CODECFS_ASSIGN(const uint64_t total, count_stored_chunks(dataset_.id()));
    progress.total = total;
  } else {
    progress.total = dataset_.has_storage() ? dataset_.facts().grid.count() : 0;
  }
  std::vector<uint64_t> batch;  // of stored chunks
  size_t taken = 0;             // of it
  const auto next = [&]() -> Result<std::optional<uint64_t>> {
    if (taken == batch.size()) {
      CODECFS_ASSIGN(batch, dataset_.stored_chunks(batch.empty() ? 0 : batch.back() + 1, kNumbersAtOnce));
      taken = 0;
      if (batch.empty()) return std::nullopt;
    }
    return batch[taken++];
  };
  // Each thread holds a chunk in three forms: stored, decoded and re-encoded.
  const ParallelOptions options{.call_bytes = 3 * *form_.shape.bytes,
                                .cancelled = progress.cancelled,
                                .cancelled_reason = fmt::format("{}: re-encoding it was cancelled", dataset_.name()),
                                .memory_reason = fmt::format("{}: no memory to re-encode it", dataset_.name())};
  return parallel_for_each(next, options, [&](uint64_t number) -> Result<> {
    CODECFS_TRY(copy_chunk(number));
    ++progress.done;
    return {};
  });
}

Result<> Recoding::copy_chunk(uint64_t number) {
  const bool partial = raw_partial_chunks_ && dataset_.is_partial_chunk(number);
  if (is_in_place_) return partial ? Result<>() : encode_masked(number);
  if (packs_) {
    CODECFS_ASSIGN(const filters::EncodedChunk stored, dataset_.read_as_stored(number, form_));
    return store(number, stored.bytes.bytes(), partial ? 0 : stored.filter_mask);
  }
  CODECFS_ASSIGN(const Buffer decoded, dataset_.read_file_form(number, form_));
  if (pipeline_->empty()) return store(number, decoded.bytes(), 0);
  // Partial edge chunks stay without filters, as in the original dataset.
  if (partial) return store(number, decoded.bytes(), 0);
  auto encoded = pipeline_->encode(decoded.bytes());
  if (!encoded)
    return fail(encoded.error().code, "{}: chunk {}: {}", dataset_.name(), dataset_.facts().grid.name_of(number),
                encoded.error().reason);
  return store(number, encoded->bytes.bytes(), encoded->filter_mask);
}

Result<> Recoding::encode_masked(uint64_t number) {
  CODECFS_ASSIGN(const ChunkInfo stored, dataset_.locate(number));
  if (!stored.stored || stored.filter_mask == 0) return {};
  CODECFS_ASSIGN(const Buffer decoded, dataset_.read_file_form(number, form_));
  const auto encoded = pipeline_->encode(decoded.bytes());
  if (!encoded)
    return fail(encoded.error().code, "{}: chunk {}: {}", dataset_.name(), dataset_.facts().grid.name_of(number),
                encoded.error().reason);
  if (encoded->filter_mask == stored.filter_mask) return {};
  {
    const ChangeTurn turn(file_);
    const LibraryLock lock;
    CODECFS_TRY(dataset_.store_recoded(number, encoded->bytes.bytes(), encoded->filter_mask));
  }
  return commit_stored(encoded->bytes.size());
}

Result<> Recoding::store(uint64_t number, Bytes encoded, uint32_t filter_mask) {
  const ChunkGrid& grid = dataset_.facts().grid;
  std::vector<uint64_t> at(grid.rank());
  grid.coordinates_of(number, at);
  std::array<hsize_t, H5S_MAX_RANK> offset{};
  for (size_t d = 0; d < dataset_.rank(); ++d) offset[d] = at[d] * grid.chunks()[d];
  {
    const ChangeTurn turn(file_);
    const LibraryLock lock;
    CODECFS_TRY(file_.allow_change(encoded.size()));
    if (H5Dwrite_chunk(second_.get(), H5P_DEFAULT, filter_mask, offset.data(), encoded.size(), encoded.data()) < 0)
      return file_.change_failed(fail_library(EIO, "{}: storing chunk {}", dataset_.name(), grid.name_of(number)));
    --file_.changes;
  }
  return commit_stored(encoded.size());
}

Result<> Recoding::commit_stored(uint64_t bytes) {
  {
    const ChangeTurn turn(file_);
    const LibraryLock lock;
    uncommitted_ += bytes;
    if (uncommitted_ < kCommitEvery) return {};
    uncommitted_ = 0;
    CODECFS_TRY(file_.flush_in_library());
  }
  return file_.commit();
}

// The exchange ------------------------------------------------------------------------------------------------------

Result<> Recoding::exchange() {
  CODECFS_TRY(file_.flush_in_library());
  CODECFS_TRY(file_.commit_locked());
  CODECFS_TRY(file_.allow_change(kRoomForExchange));
  CODECFS_TRY(check_unchanged());
  // Before the space of the old chunks is reused.
  file_.outdate(address_);
  Result<> done = exchange_storage();
  if (done) {
    done = file_.commit_locked();
    if (!file_.changed) return {};  // only the checkpoint can have failed then, which can be repeated later
  }
  if (!file_.failure && file_.changed) CODECFS_TRY(file_.roll_back());
  return done;
}

Result<> Recoding::check_unchanged() const {
  const Handle first(open_object(file_.file.get(), address_));
  ObjectInfo info;
  if (!object_info(first.get(), info) || info.references == 0)
    return fail(ENOENT, "{}: was removed while it was re-encoded", dataset_.name());
  const Handle old_space(H5Dget_space(first.get()));
  const Handle new_space(H5Dget_space(second_.get()));
  if (H5Sextent_equal(old_space.get(), new_space.get()) <= 0)
    return fail(EBUSY, "{}: its shape was changed while it was re-encoded", dataset_.name());
  return {};
}

Result<Recoding::Identity> Recoding::identity_of(hid_t dataset) const {
  ObjectInfo info;
  const Handle type(H5Dget_type(dataset));
  Identity identity{.type = Handle(H5Tcopy(type.get())), .space = Handle(H5Dget_space(dataset))};
  if (!object_info(dataset, info) || !identity.type || !identity.space)
    return fail_library(EIO, "{}: what it is", dataset_.name());
  identity.attributes = info.attributes;
  identity.references = info.references;
  return identity;
}

Result<> Recoding::verify(hid_t first, hid_t second, const Identity& before) const {
  CODECFS_ASSIGN(const Identity now, identity_of(first));
  const bool same = now.attributes == before.attributes && now.references == before.references &&
                    H5Tequal(now.type.get(), before.type.get()) > 0 &&
                    H5Sextent_equal(now.space.get(), before.space.get()) > 0;
  const Handle properties(H5Dget_create_plist(first));
  const Handle others(H5Dget_create_plist(second));
  CODECFS_ASSIGN(const std::vector<FilterStage> chain, stored_chain(properties.get()));
  CODECFS_ASSIGN(const std::vector<FilterStage> other_chain, stored_chain(others.get()));
  if (!same || H5Pget_layout(properties.get()) != H5D_CHUNKED || !is_same_chain(chain, chain_) ||
      !is_same_chain(other_chain, dataset_.facts().filters))
    return fail(EIO, "{}: libhdf5 does not find the new storage as it should be", dataset_.name());
  return {};
}

Result<Recoding::Headers> Recoding::read_headers() const {
  const auto read = [&](uint64_t offset, MutableBytes to) -> Result<> {
    CODECFS_ASSIGN(const size_t count, file_.bytes->read(offset, to));
    if (count < to.size())
      return fail(EIO, "{}: an object header ({} bytes at {}) is beyond the end of the file ({} bytes)", file_.path,
                  to.size(), offset, file_.bytes->size());
    return {};
  };
  const auto read_one = [&](uint64_t address) -> Result<ObjectHeader> {
    auto header = ObjectHeader::read(read, format_, address);
    if (!header) return fail(header.error().code, "{}: {}", dataset_.name(), header.error().reason);
    return header;
  };
  CODECFS_ASSIGN(ObjectHeader first, read_one(address_));
  CODECFS_ASSIGN(ObjectHeader second, read_one(second_address_));
  return Headers{std::move(first), std::move(second)};
}

Result<> Recoding::check_headers(const Headers& headers) const {
  for (const ObjectHeader* header : {&headers.first, &headers.second}) {
    if (header->count(MessageType::layout) != 1)
      return fail(EIO, "{}: its object header does not say where its data is", dataset_.name());
    if (std::ranges::any_of(kStorage, [&](MessageType type) { return header->shares(type); }))
      return fail(EOPNOTSUPP, "{}: its file shares the messages of object headers (H5Pset_shared_mesg_nindexes)",
                  dataset_.name());
  }
  return {};
}

// A contiguous layout without an address.
HeaderMessage Recoding::no_storage() const {
  HeaderMessage layout{.type = MessageType::layout, .body = {std::byte{3}, std::byte{1}}};
  layout.body.resize(2 + format_.offset_size, std::byte{0xff});
  std::array<std::byte, 8> size{};
  store_le(size.data(), dataset_.facts().grid.count() * *form_.shape.bytes);
  layout.body.insert(layout.body.end(), size.begin(), size.begin() + static_cast<ptrdiff_t>(format_.length_size));
  return layout;
}

// `comments`: also use the space of the objects' comments.
Result<Recoding::Exchange> Recoding::exchanged(bool comments) const {
  CODECFS_ASSIGN(Headers headers, read_headers());
  CODECFS_TRY(check_headers(headers));
  std::vector<HeaderMessage> of_first = headers.first.take(kStorage);
  std::vector<HeaderMessage> of_second = headers.second.take(kStorage);
  // Data in the header itself (compact layout) is dropped: it may be large, and no storage must be freed for it.
  if (dataset_.facts().storage == Storage::compact) {
    std::erase_if(of_first, [](const HeaderMessage& message) { return message.type == MessageType::layout; });
    of_first.push_back(no_storage());
  }
  if (comments) {
    headers.first.take(std::array{MessageType::comment});
    headers.second.take(std::array{MessageType::comment});
  }
  Exchange exchange{.first_needs = headers.first.room_for(of_second),
                    .second_needs = headers.second.room_for(of_first),
                    .headers = {}};
  for (auto [header, messages] : {std::pair(&headers.first, &of_second), std::pair(&headers.second, &of_first)}) {
    const Result<> put = header->put(std::move(*messages));
    if (!put && put.error().code == ENOSPC) return exchange;
    CODECFS_TRY(put);
  }
  exchange.headers = std::move(headers);
  return exchange;
}

// Makes libhdf5 enlarge the header for a comment, whose space then is available.
Result<> Recoding::make_room(hid_t first, const Exchange& exchange) const {
  for (const auto& [dataset, needs] :
       {std::pair(first, exchange.first_needs), std::pair(second_.get(), exchange.second_needs)}) {
    if (needs > kLongestComment)
      return fail(EOPNOTSUPP, "{}: {} bytes in its object header are too much to be moved", dataset_.name(), needs);
    if (H5Oset_comment(dataset, std::string(needs, ' ').c_str()) < 0)
      return fail_library(EIO, "{}: room in its object header", dataset_.name());
  }
  return {};
}

Result<> Recoding::exchange_storage() {
  Handle first(open_object(file_.file.get(), address_));
  CODECFS_ASSIGN(const Identity before, identity_of(first.get()));
  CODECFS_ASSIGN(const std::string comment, comment_of(first.get()));
  // A link keeps the second dataset while it is closed. Version 2 headers do not store a link count of 0: when such a
  // header is evicted from libhdf5's cache and reloaded, its count is 1. So remove that count first, for libhdf5 to see
  // the link as the first one.
  (void)H5Odecr_refcount(second_.get());
  if (H5Oincr_refcount(second_.get()) < 0) return fail_library(EIO, "{}: exchanging its storage", dataset_.name());
  CODECFS_TRY(file_.flush_in_library());
  CODECFS_ASSIGN(const Exchange planned, exchanged(false));
  const bool comments = !planned.headers;
  if (comments) CODECFS_TRY(make_room(first.get(), planned));
  KeptSpace kept;
  CODECFS_TRY(kept.take(file_.file.get(), KeptSpace::kWithinMount));
  first.reset();
  second_.reset();
  CODECFS_TRY(file_.close_in_library());

  CODECFS_ASSIGN(const Exchange exchange, exchanged(comments));
  if (!exchange.headers) return fail(EIO, "{}: libhdf5 made no room in its object header", dataset_.name());
  const auto write = [&](uint64_t offset, Bytes bytes) { return file_.bytes->write(offset, bytes); };
  CODECFS_TRY(exchange.headers->first.write(write));
  CODECFS_TRY(exchange.headers->second.write(write));
  CODECFS_TRY(file_.reopen_in_library());

  first = Handle(open_object(file_.file.get(), address_));
  Handle second(open_object(file_.file.get(), second_address_));
  CODECFS_TRY(verify(first.get(), second.get(), before));
  const bool commented = !comments || comment.empty() || H5Oset_comment(first.get(), comment.c_str()) >= 0;
  // Without its last link, libhdf5 frees the dataset, which now has the old storage.
  if (!commented || H5Odecr_refcount(second.get()) < 0 || !second.close())
    return fail_library(EIO, "{}: removing its old storage", dataset_.name());
  CODECFS_TRY(kept.release(file_.file.get()));
  return file_.flush_in_library();
}

}  // namespace codecfs::hdf5
