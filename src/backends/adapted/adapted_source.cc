// What the source reads, in another form. Nothing can be written: the defaults of the interfaces refuse it.

#include "backends/api/adapted_source.h"

#include <map>
#include <string>
#include <utility>

#include "backends/adapted/adapted_variable.h"
#include "backends/adapted/string_chunks.h"
#include "backends/api/forwarding_source.h"
#include "backends/api/names.h"
#include "base/log.h"
#include "base/lru_map.h"
#include "base/mutex.h"
#include "model/memory_estimate.h"

namespace codecfs {
namespace {

using adapted::Form;

/// Decoded bytes of a variable's strings. The longest of more is not looked for: it would take minutes.
constexpr uint64_t kMaxMeasured = uint64_t{4} << 30;
constexpr uint64_t kLeastCost = 4096;  // of a chunk, in the same unit
constexpr size_t kBatch = 1024;

class AdaptedSource final : public WrappedSource {
 public:
  AdaptedSource(std::unique_ptr<Source> source, const Adaptation& adaptation)
      : WrappedSource(std::move(source)), adaptation_(adaptation) {}

  bool changed_outside(ObjectId object) override;
  Result<std::vector<Entry>> list(ObjectId group) override;
  Result<Entry> find(ObjectId group, std::string_view name) override;
  Result<std::optional<NczarrMembers>> nczarr_members(ObjectId group) override {
    return adaptation_.suits_netcdf ? std::nullopt : source().nczarr_members(group);
  }
  Result<std::vector<Attribute>> group_attributes(ObjectId group) override {
    Result<std::vector<Attribute>> attributes = source().group_attributes(group);
    if (attributes && adaptation_.suits_netcdf) attributes = adapted::for_netcdf(*std::move(attributes));
    return attributes;
  }
  Result<VariablePtr> variable(ObjectId variable) override;
  Result<VariablePtr> facts(ObjectId variable) override;
  // By variable().
  Result<std::vector<Attribute>> variable_attributes(ObjectId variable) override {
    return Source::variable_attributes(variable);
  }

  Result<ChunkInfo> locate(ObjectId variable, uint64_t number) override;
  Result<std::vector<uint64_t>> stored_chunks(ObjectId variable, uint64_t from, size_t limit) override;
  Result<DecodedChunk> fetch_chunk(ObjectId variable, uint64_t number) override;
  Result<std::optional<Buffer>> read_part(ObjectId variable, uint64_t number, uint64_t offset, uint64_t size) override {
    return if_stored_so<&Source::read_part>(variable, number, offset, size);
  }
  Result<std::optional<Buffer>> read_stored(ObjectId variable, uint64_t number) override {
    return if_stored_so<&Source::read_stored>(variable, number);
  }
  Result<std::optional<uint64_t>> stored_bytes(ObjectId variable, uint64_t number) override {
    return if_stored_so<&Source::stored_bytes>(variable, number);
  }
  Result<std::optional<UniqueFd>> open_stored(ObjectId variable, uint64_t number) override {
    return if_stored_so<&Source::open_stored>(variable, number);
  }
  Result<std::optional<uint64_t>> stored_offset(ObjectId variable, uint64_t number) override {
    return if_stored_so<&Source::stored_offset>(variable, number);
  }
  // Only variables in the form of the source have shards: those are forwarded.

  Result<> writable() override {
    return fail(EROFS, "with -o view=netcdf, strings= or chunks= a source can only be read");
  }
  bool close_idle() override {
    forms_.clear();
    return WrappedSource::close_idle();
  }
  Result<bool> wake() override {
    const Result<bool> same = WrappedSource::wake();
    if (!same || !*same) {
      lengths_.clear();
      const LockGuard lock(naming_);
      lengths_of_names_.clear();
    }
    return same;
  }

 private:
  /// Whether netCDF-C reads it, or nothing was asked for that. A variable that cannot be described is shown as that.
  bool is_shown(const Entry& entry);
  VariablePtr with_own_names(const Variable& variable);
  Result<std::shared_ptr<const Form>> form_of(ObjectId variable);
  Result<std::shared_ptr<const Form>> make(ObjectId variable);
  /// None where the variable is shown in another form than it is stored in.
  template <auto kFunction, class... Args>
  std::invoke_result_t<decltype(kFunction), Source&, ObjectId, Args&...> if_stored_so(ObjectId variable,
                                                                                      Args&... args) {
    CODECFS_ASSIGN(const std::shared_ptr<const Form> form, form_of(variable));
    if (!form->is_stored_form()) return std::nullopt;
    return std::invoke(kFunction, source(), variable, args...);
  }
  Result<uint64_t> length_of(ObjectId variable, const Variable& stored);
  Result<uint64_t> measure(ObjectId variable, const Variable& stored);

  const Adaptation adaptation_;
  LruMap<ObjectId, Form> forms_{512, kMaxHeld};
  LruMap<ObjectId, Result<uint64_t>> lengths_{size_t{1} << 16};
  LruMap<ObjectId, bool> told_{size_t{1} << 16};  // what is left out, of which the log has told
  Mutex naming_;
  std::map<std::string, uint64_t> lengths_of_names_ CODECFS_GUARDED_BY(naming_);  // of dimensions
  Mutex measuring_{LockRank::measuring_strings};  // one variable at a time; held while its chunks are read
};

bool AdaptedSource::changed_outside(ObjectId object) {
  if (!source().changed_outside(object)) return false;
  forms_.erase(object);
  lengths_.erase(object);
  return true;
}

bool AdaptedSource::is_shown(const Entry& entry) {
  if (!adaptation_.suits_netcdf) return true;
  if (entry.kind == EntryKind::symlink) return false;  // netCDF-C crashes or loops at some; the target has a name, too
  const auto shown_unless = [&](std::string_view why) {
    if (!why.empty() && told_.get(entry.object) == nullptr) {
      log::warning("{}: is left out of the view for netCDF-C: it {}", entry.name, why);
      told_.put(entry.object, std::make_shared<const bool>(true));
    }
    return why.empty();
  };
  if (entry.kind == EntryKind::group)
    return shown_unless(is_netcdf_name(entry.name) ? "" : "has a name that netCDF does not have");
  if (entry.kind != EntryKind::variable) return true;
  const Result<VariablePtr> stored = source().facts(entry.object);
  if (!stored) return true;
  return shown_unless(adapted::why_not_netcdf(entry.name, **stored, adaptation_));
}

Result<std::vector<Entry>> AdaptedSource::list(ObjectId group) {
  CODECFS_ASSIGN(std::vector<Entry> entries, source().list(group));
  std::erase_if(entries, [&](const Entry& entry) { return !is_shown(entry); });
  return entries;
}

Result<Entry> AdaptedSource::find(ObjectId group, std::string_view name) {
  Result<Entry> entry = source().find(group, name);
  if (entry && !is_shown(*entry)) return fail(ENOENT, "{}: is left out of the view for netCDF-C", name);
  return entry;
}

Result<VariablePtr> AdaptedSource::facts(ObjectId variable) {
  CODECFS_ASSIGN(const std::shared_ptr<const Form> form, make(variable));
  return form->shown;
}

Result<VariablePtr> AdaptedSource::variable(ObjectId variable) {
  CODECFS_ASSIGN(const std::shared_ptr<const Form> form, make(variable));
  CODECFS_ASSIGN(VariablePtr stored, source().variable(variable));
  VariablePtr shown = adapted::described(*form, std::move(stored));
  return adaptation_.suits_netcdf ? with_own_names(*shown) : shown;
}

/// netCDF-C 4.9 has one length for a dimension name in a whole store of Zarr, and would cut or pad other variables. The
/// first length that is asked for has the name, others have names with their length.
VariablePtr AdaptedSource::with_own_names(const Variable& variable) {
  auto shown = std::make_shared<Variable>(variable);
  shown->dimension_paths.reset();
  std::optional<OptionalNames> names = names_of(variable);
  if (!names) return shown;
  const LockGuard lock(naming_);
  for (size_t d = 0; d < names->size() && d < variable.grid.rank(); ++d) {
    std::optional<std::string>& name = (*names)[d];
    const uint64_t length = variable.grid.shape()[d];
    constexpr size_t kLongest = 200;  // with a length behind it, netCDF has it still
    if (!name || !is_netcdf_name(*name) || name->size() > kLongest) name = "dimension";
    if (lengths_of_names_.try_emplace(*name, length).first->second == length) continue;
    for (*name += fmt::format("_{}", length); lengths_of_names_.try_emplace(*name, length).first->second != length;)
      *name += "_";
  }
  set_names(*shown, std::move(names));
  return shown;
}

Result<ChunkInfo> AdaptedSource::locate(ObjectId variable, uint64_t number) {
  CODECFS_ASSIGN(const std::shared_ptr<const Form> form, form_of(variable));
  CODECFS_ASSIGN(ChunkInfo info, source().locate(variable, number));
  info.stored |= form->shows_fill;
  return info;
}

Result<std::vector<uint64_t>> AdaptedSource::stored_chunks(ObjectId variable, uint64_t from, size_t limit) {
  CODECFS_ASSIGN(const std::shared_ptr<const Form> form, form_of(variable));
  if (!form->shows_fill) return source().stored_chunks(variable, from, limit);
  std::vector<uint64_t> numbers;
  for (const uint64_t count = form->shown->grid.count(); from < count && numbers.size() < limit; ++from)
    numbers.push_back(from);
  return numbers;
}

Result<DecodedChunk> AdaptedSource::fetch_chunk(ObjectId variable, uint64_t number) {
  CODECFS_ASSIGN(const std::shared_ptr<const Form> form, form_of(variable));
  if (form->shown->unreadable) return std::unexpected(*form->shown->unreadable);
  Result<DecodedChunk> chunk = source().fetch_chunk(variable, number);
  if (form->is_stored_form()) return chunk;
  if (chunk) {
    CODECFS_ASSIGN(chunk->bytes, adapted::shown_chunk(*form, std::move(chunk->bytes)));
  } else if (chunk.error().code == ENOENT && form->shows_fill) {
    CODECFS_ASSIGN(Buffer fill, adapted::fill_chunk(*form));
    return DecodedChunk{.bytes = std::move(fill)};
  }
  return chunk;
}

Result<std::shared_ptr<const Form>> AdaptedSource::form_of(ObjectId variable) {
  if (std::shared_ptr<const Form> known = forms_.get(variable)) return known;
  return make(variable);
}

Result<std::shared_ptr<const Form>> AdaptedSource::make(ObjectId variable) {
  CODECFS_ASSIGN(VariablePtr stored, source().facts(variable));
  Result<uint64_t> longest = 1;
  if (adapted::needs_length(*stored, adaptation_)) longest = length_of(variable, *stored);
  CODECFS_ASSIGN(Form made, adapted::make_form(std::move(stored), adaptation_, longest));
  auto form = std::make_shared<const Form>(std::move(made));
  forms_.put(variable, form, memory_estimate(*form->stored) + memory_estimate(*form->shown));
  return form;
}

Result<uint64_t> AdaptedSource::length_of(ObjectId variable, const Variable& stored) {
  if (stored.unreadable) return std::unexpected(*stored.unreadable);
  if (const auto known = lengths_.get(variable)) return *known;
  const LockGuard lock(measuring_);
  if (const auto known = lengths_.get(variable)) return *known;
  const auto length = std::make_shared<const Result<uint64_t>>(measure(variable, stored));
  if (*length || length->error().code == EFBIG) lengths_.put(variable, length);
  return *length;
}

/// The fill value counts too. Chunks that cannot be read do not: reading them is the same error later.
Result<uint64_t> AdaptedSource::measure(ObjectId variable, const Variable& stored) {
  uint64_t longest = 0;
  if (!stored.fill.empty()) {
    Variable one = stored;
    CODECFS_ASSIGN(one.grid, ChunkGrid::make({}, {}));
    CODECFS_ASSIGN(const Buffer fill, make_fill_chunk(one));
    CODECFS_ASSIGN(longest, adapted::longest_string(one, fill.bytes(), 1));
  }
  uint64_t measured = 0;
  for (uint64_t from = 0;;) {
    CODECFS_ASSIGN(const std::vector<uint64_t> numbers, source().stored_chunks(variable, from, kBatch));
    if (numbers.empty()) return longest;
    from = numbers.back() + 1;
    for (const uint64_t number : numbers) {
      const Result<Buffer> chunk = source().read_chunk(variable, number);
      if (!chunk && chunk.error().code == ENOMEM) return std::unexpected(chunk.error());
      if (!chunk) continue;
      const Result<uint64_t> here = adapted::longest_string(stored, chunk->bytes(), stored.grid.elements_per_chunk());
      if (here) longest = std::max(longest, *here);
      measured += std::max<uint64_t>(chunk->size(), kLeastCost);
      if (measured > kMaxMeasured)
        return fail(EFBIG, "there are too many strings to look for the longest; -o strings=vlen shows them");
    }
  }
}

}  // namespace

std::unique_ptr<Source> adapt_source(std::unique_ptr<Source> source, const Adaptation& adaptation) {
  if (!adaptation.is_any()) return source;
  return std::make_unique<AdaptedSource>(std::move(source), adaptation);
}

}  // namespace codecfs
