// The map of ranges, compared with a model that has an entry for every byte.

#include "backends/hdf5/wal/write_log_overlay.h"

#include <gtest/gtest.h>

#include <random>
#include <utility>
#include <vector>

namespace codecfs {
namespace {

using hdf5::Overlay;
using Origin = Overlay::Origin;
using Byte = std::pair<Origin, uint64_t>;

TEST(WriteLogOverlay, AgreesWithAModelOfSingleBytes) {
  std::mt19937 random(1);
  for (int round = 0; round < 300; ++round) {
    const uint64_t base = random() % 50;
    Overlay overlay(base);
    std::vector<Byte> model;
    for (uint64_t i = 0; i < base; ++i) model.emplace_back(Origin::source, i);
    uint64_t position = 1000;
    for (int step = 0; step < 40; ++step) {
      if (random() % 6 == 0) {
        const uint64_t size = random() % 80;
        overlay.set_size(size);
        model.resize(size, {Origin::zeros, 0});
      } else {
        const uint64_t offset = random() % 70;
        const uint64_t length = random() % 20;
        const Origin origin = random() % 2 == 0 ? Origin::log : Origin::memory;
        overlay.write(offset, length, origin, position);
        if (length != 0 && model.size() < offset + length) model.resize(offset + length, {Origin::zeros, 0});
        for (uint64_t i = 0; i < length; ++i) model[offset + i] = {origin, position + i};
        position += length;
      }
      ASSERT_EQ(overlay.size(), model.size());
      ASSERT_LE(overlay.base_end(), overlay.size());
      for (uint64_t at = 0; at < overlay.size();) {
        const Overlay::Piece piece = overlay.piece_at(at);
        ASSERT_GT(piece.length, 0U);
        ASSERT_LE(at + piece.length, overlay.size());
        for (uint64_t i = 0; i < piece.length; ++i) {
          ASSERT_EQ(piece.origin, model[at + i].first);
          const uint64_t position_of_byte = piece.origin == Origin::zeros ? 0 : piece.position + i;
          ASSERT_EQ(position_of_byte, model[at + i].second);
        }
        at += piece.length;
      }
    }
  }
}

}  // namespace
}  // namespace codecfs
