// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"
#include "base/units.h"
#include "link/messages.h"
#include "text/text_model.h"

// Messages <-> bytes. A message is a MessagePack array [tag, field, field, ...] in the order of
// messages.h; arrays of numbers travel as one binary value of little-endian records. A frame is one
// or more messages end to end (a sender joins what waits). Inside one protocol version shapes are
// exact: a missing or extra field is an error that names it. Only Hello may be longer, so that a
// peer of another version can be refused by name: its first three fields never move.
namespace taproot::link {

// Limits of what a peer may send. Above them decoding fails; nothing is allocated first.
inline constexpr std::size_t kFrameBytesMax = 64_MiB;
inline constexpr std::size_t kNameBytesMax = 1_KiB;      // worker, model, build, isa
inline constexpr std::size_t kMessageBytesMax = 64_KiB;  // texts for people
inline constexpr std::size_t kPromptTokensMax = 1u << 20;
inline constexpr std::size_t kChoicesMax = 1'024;
inline constexpr std::size_t kStopTokensMax = 4'096;
inline constexpr std::size_t kLogitBiasMax = 1u << 16;
inline constexpr std::size_t kTopLogprobsMax = 1'024;
inline constexpr std::size_t kStepEntriesMax = 1u << 18;  // tokens, starts of one step
inline constexpr std::size_t kEventsMax = 1u << 20;       // one KvEventBatch
inline constexpr std::size_t kSnapshotBlocksMax = 3u << 20;
inline constexpr std::size_t kVocabMax = 1u << 21;
inline constexpr std::size_t kTextModelBytesMax = 48_MiB;

// Append one message to `out`. Cost: about the bytes written; a Generate with 4 000 tokens is one
// 16 KB copy. Never fails: the sender checks sizes (validate, LinkConnection::send).
void encode(const ToGateway& message, std::string& out);
void encode(const ToWorker& message, std::string& out);
// The same without building the variant first, for the hot and the large ones.
void encode(const StepOutput& message, std::string& out);
void encode(const KvEventBatch& message, std::string& out);
void encode(const KvSnapshot& message, std::string& out);
void encode(const Load& message, std::string& out);
void encode(const Generate& message, std::string& out);

// Take one message off the front of `frame` (not empty); loop until it is empty. Any bytes are
// safe; errors are kDataLoss with the field as `where`. After an error the frame is of no use.
Result<ToGateway> decode_to_gateway(std::string_view& frame);
Result<ToWorker> decode_to_worker(std::string_view& frame);

// The rules of a Generate that need no model: what decoding enforces, for the sender to check first
// (a frame that the peer refuses costs the whole connection). kInvalidArgument.
Result<void> validate(const Generate& message);

// The text side of a model as bytes, and its name: equal digests mean equal models.
std::string encode_text_model(const TextModel& model);
Result<TextModel> decode_text_model(std::string_view bytes);
std::uint64_t text_digest(std::string_view encoded_text_model);  // XXH3-64; never 0

// For logs and errors: "StepOutput", "Generate", ...
const char* name_of(const ToGateway& message);
const char* name_of(const ToWorker& message);

}  // namespace taproot::link
