#include "commands/recode.h"

#include <utility>

#include "commands/dataset_info.h"
#include "commands/tree_files.h"
#include "commands/walk.h"
#include "commands/workers.h"
#include "fs/views/encoded_forms.h"

namespace codecfs::commands {
namespace {

uint64_t stored_bytes(Source& source, ObjectId object, uint64_t& chunks) {
  constexpr size_t kBatch = 4096;
  uint64_t bytes = 0;
  chunks = 0;
  for (uint64_t from = 0;;) {
    const auto numbers = source.stored_chunks(object, from, kBatch);
    if (!numbers || numbers->empty()) return bytes;
    for (const uint64_t number : *numbers)
      if (const Result<ChunkInfo> place = source.locate(object, number)) bytes += place->stored_size;
    chunks += numbers->size();
    from = numbers->back() + 1;
  }
}

/// Recodes one variable. The reason why it is left as it is goes to `report`; ECANCELED.
Result<> recode_variable(TreeFiles& tree, const std::string& path, const Entry& entry, Recoded& report) {
  const Result<> done = [&]() -> Result<> {
    CODECFS_ASSIGN(const TreeFiles::Ino ino, tree.find_path(path));
    CODECFS_ASSIGN(const fs::Place place, tree.filesystem().context().nodes.at(ino));
    const fs::ChunkPlace any_chunk{place.node->key(), entry.object, 0, nullptr};
    return tree.filesystem().filters().apply_rules(any_chunk, [] { return interrupted.load(); });
  }();
  if (done) return {};
  if (interrupted || done.error().code == EINTR) return fail(ECANCELED, "interrupted");
  report.refused = done.error().reason;
  report.changes = false;
  return {};
}

}  // namespace

Result<RecodeResult> recode(std::unique_ptr<Source> owned, filters::FilterRules rules, bool dry_run,
                            const std::function<void(const Recoded&)>& told) {
  if (owned->root().kind == EntryKind::folder)
    return fail(EINVAL,
                "the source is a folder of datasets, of which a rule would change each: recode them one by one");
  if (!dry_run) CODECFS_TRY(owned->writable());
  Source& source = *owned;
  TreeFiles tree(std::move(owned), {.rules = std::move(rules), .read_only = dry_run});
  std::vector<std::pair<std::string, Entry>> variables;
  CODECFS_TRY(walk(
      source,
      [&](const std::string& path, const Entry& entry) -> Result<> {
        if (entry.kind == EntryKind::variable) variables.emplace_back(path, entry);
        return {};
      },
      [](const std::string&, const Error& error) -> Result<> { return std::unexpected(error); }));
  RecodeResult result;
  Result<> ended;
  for (const auto& [path, entry] : variables) {
    const Result<VariablePtr> facts = source.facts(entry.object);
    if (!facts) return std::unexpected(facts.error());
    const std::string full = "/" + path;
    const auto wanted = tree.filesystem().rules().pipeline_for(full, **facts);
    if (!wanted) continue;
    Recoded report{
        .path = full, .before = filters_text((*facts)->filters), .after = filters_text(*wanted), .refused = {}};
    report.changes = !fs::are_equal((*facts)->filters, *wanted);
    report.bytes_before = stored_bytes(source, entry.object, report.chunks);
    if (!dry_run) {
      ended = recode_variable(tree, path, entry, report);
      if (!ended) break;
      if (const Result<VariablePtr> now = source.facts(entry.object); now && report.refused.empty()) {
        report.after = filters_text((*now)->filters);
        report.changes = !fs::are_equal((*facts)->filters, (*now)->filters);
      }
      report.bytes_after = stored_bytes(source, entry.object, report.chunks);
    }
    told(report);
    result.variables.push_back(std::move(report));
  }
  if (!dry_run) {
    result.reclaimable_bytes = source.reclaimable_bytes();
    CODECFS_TRY(tree.finish());
  }
  if (!ended) return std::unexpected(ended.error());
  if (result.variables.empty()) return fail(EINVAL, "no rule names a variable with chunks in this source");
  return result;
}

}  // namespace codecfs::commands
