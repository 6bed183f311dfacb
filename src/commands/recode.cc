#include "commands/recode.h"

#include <utility>
#include <vector>

#include "commands/dataset_info.h"
#include "commands/tree_files.h"
#include "commands/workers.h"
#include "filters/core/codec_json.h"
#include "filters/core/stock_filters.h"
#include "fs/views/encoded_forms.h"

namespace codecfs::commands {
namespace {

/// Recodes one variable. The reason why it is left as it is goes to `report`; ECANCELED.
Result<> recode_variable(TreeFiles& tree, const InfoNode& node, Recoded& report) {
  const Result<> done = [&]() -> Result<> {
    CODECFS_ASSIGN(const TreeFiles::Ino ino, tree.find_path(node.path));
    CODECFS_ASSIGN(const fs::Place place, tree.filesystem().context().tree.nodes.at(ino));
    const fs::ChunkPlace any_chunk{place.node->key(), node.entry.object, 0, nullptr};
    fs::FilterControl& filters = tree.filesystem().filters();
    const auto cancelled = [] { return interrupted.load(); };
    CODECFS_TRY(filters.apply_rules(any_chunk, cancelled));
    if (report.masked_before == 0) return {};
    CODECFS_ASSIGN(const VariablePtr now, tree.filesystem().context().dataset.source().facts(node.entry.object));
    const bool is_same = fs::are_equal(node.variable->facts->filters, now->filters);
    return is_same ? filters.encode_masked_chunks(*place.node, cancelled) : Result<>();
  }();
  if (done) return {};
  if (interrupted || done.error().code == EINTR) return fail(ECANCELED, "interrupted");
  report.refused = done.error();
  report.changes = false;
  return {};
}

/// Says what became of the variable, also after an interruption.
Result<> measure(Source& source, const Entry& entry, const Variable& before, Recoded& report) {
  CODECFS_ASSIGN(const VariableInfo now, read_variable(source, entry.object));
  if (!now.facts) return std::unexpected(*now.error);
  report.after = filters_text(now.facts->filters);
  report.changes = !fs::are_equal(before.filters, now.facts->filters) ||
                   filters::print_stored_spec(before.filters) != filters::print_stored_spec(now.facts->filters);
  report.bytes_after = now.stored_bytes;
  if (report.changes && !source.chains_for_numcodecs_in(entry.object))
    report.plugins = filters::plugins_needed(now.facts->filters);
  report.masked_after = now.masked_chunks;
  return {};
}

class Recoder {
 public:
  using Told = std::function<void(Recoded)>;

  Recoder(std::unique_ptr<Source> source, filters::FilterRules rules, bool dry_run, Told told)
      : source_(*source),
        tree_(std::move(source), {.rules = std::move(rules), .read_only = dry_run}),
        dry_run_(dry_run),
        told_(std::move(told)) {}

  Result<> run(const DatasetInfo& before) {
    CODECFS_TRY(tree_.filesystem().rules().check());
    const Result<> ended = recode_all(before);
    if (dry_run_) return ended;
    reclaimable_ = source_.reclaimable_bytes();
    const Result<> finished = tree_.finish();  // what was told is stored, however it ended
    const bool is_told = !pending_.empty();
    tell_pending(finished);
    if (!is_told) CODECFS_TRY(finished);
    return ended;
  }

  [[nodiscard]] uint64_t reclaimable_bytes() const { return reclaimable_; }

 private:
  Result<> recode_all(const DatasetInfo& before) {
    for (const InfoNode& node : before.nodes)
      if (node.variable) CODECFS_TRY(recode_one(node));
    return {};
  }

  /// Recodes the variable, or finds out what would happen.
  Result<> recode_one(const InfoNode& node) {
    fs::Filesystem& filesystem = tree_.filesystem();
    Recoded report{.path = "/" + node.path, .before = {}, .after = {}, .plugins = {}, .refused = {}};
    const VariablePtr& facts = node.variable->facts;
    if (facts == nullptr) {
      if (!filesystem.context().options.rules.resolve(report.path)) return {};
      report.refused = node.variable->error;
      told_(std::move(report));
      return {};
    }
    const auto wanted = filesystem.rules().pipeline_for(report.path, *facts);
    if (!wanted) return {};
    report.before = filters_text(facts->filters);
    report.after = filters_text(*wanted);
    report.changes = !fs::are_equal(facts->filters, *wanted);
    report.chunks = node.variable->stored_chunks;
    report.bytes_before = node.variable->stored_bytes;
    report.masked_before = report.masked_after = node.variable->masked_chunks;
    Result<> measured;
    if (!dry_run_) {
      const bool would_change = report.changes;
      CODECFS_TRY(recode_variable(tree_, node, report));
      if (would_change && report.refused && is_changed(node)) {
        Pending& pending = pending_.emplace_back(std::move(report), Recoded{});
        pending.if_stored = pending.if_not;
        pending.if_stored.refused.reset();
        return measure(source_, node.entry, *facts, pending.if_stored);
      }
      if (would_change && !report.refused) tell_pending({});  // the archive was rewritten as a whole
      if (!report.refused) measured = measure(source_, node.entry, *facts, report);
    }
    told_(std::move(report));
    return measured;
  }

  /// Whether the variable has other filters, although that could not be stored: a zip archive is rewritten once more at
  /// the end.
  bool is_changed(const InfoNode& node) {
    const Result<VariablePtr> now = source_.facts(node.entry.object);
    return now && !fs::are_equal((*now)->filters, node.variable->facts->filters);
  }

  void tell_pending(const Result<>& finished) {
    for (Pending& pending : pending_) told_(std::move(finished ? pending.if_stored : pending.if_not));
    pending_.clear();
  }

  struct Pending {
    Recoded if_not;
    Recoded if_stored;
  };

  Source& source_;
  TreeFiles tree_;
  const bool dry_run_;
  const Told told_;
  std::vector<Pending> pending_;
  uint64_t reclaimable_ = 0;
};

}  // namespace

Result<RecodeResult> recode(std::unique_ptr<Source> source, filters::FilterRules rules, bool dry_run,
                            const std::function<void(const Recoded&)>& told) {
  if (source->root().kind == EntryKind::folder)
    return fail(EINVAL,
                "the source is a folder of datasets, of which a rule would change each: recode them one by one (a Zarr "
                "store has .zgroup, .zarray or zarr.json at its top)");
  if (rules.keeps_to_stock() && source->chains_for_numcodecs_in(source->root().object))
    return fail(EINVAL, "--stock-filters: only for HDF5, as each program with Zarr has numcodecs");
  if (!dry_run) CODECFS_TRY(source->writable());
  CODECFS_ASSIGN(const DatasetInfo before, read_info(*source, ""));
  for (const InfoNode& node : before.nodes)
    if (node.error) return fail(node.error->code, "/{}: {}", node.path, node.error->reason);
  RecodeResult result;
  Recoder recoder(std::move(source), std::move(rules), dry_run, [&](Recoded report) {
    told(report);
    result.variables.push_back(std::move(report));
  });
  CODECFS_TRY(recoder.run(before));
  result.reclaimable_bytes = recoder.reclaimable_bytes();
  return result;
}

}  // namespace codecfs::commands
