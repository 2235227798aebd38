// SPDX-License-Identifier: Apache-2.0
#include "gateway/admin/route_history.h"

#include "gateway/openai/json_writer.h"

namespace taproot::gateway {

std::uint64_t RouteHistory::add(RouteRecord record) {
    records_.push_back(std::move(record));
    if (records_.size() > capacity_) {
        records_.pop_front();
        ++first_number_;
    }
    return first_number_ + records_.size() - 1;
}

void RouteHistory::set_real_cached(std::uint64_t number, std::uint32_t tokens) {
    if (number >= first_number_ && number - first_number_ < records_.size())
        records_[number - first_number_].real_cached_tokens = tokens;
}

std::vector<const RouteRecord*> RouteHistory::find(std::string_view request_id) const {
    std::vector<const RouteRecord*> out;  // a debug question may scan a thousand entries
    for (const RouteRecord& record : records_)
        if (record.request_id == request_id) out.push_back(&record);
    return out;
}

namespace {

void append_member(std::string& out, std::string_view name, double value) {
    out += ",\"";
    out += name;
    out += "\":";
    append_json_number(out, value);
}

void append_count(std::string& out, std::string_view name, std::int64_t value) {
    out += ",\"";
    out += name;
    out += "\":";
    append_json_number(out, value);
}

void append_candidate(std::string& out, const RouteCandidate& candidate, std::string_view name) {
    out += "{\"worker\":";
    append_json_string(out, name);
    append_count(out, "cached_tokens", candidate.cached_tokens);
    append_member(out, "cost_ms", candidate.total_ms);
    append_member(out, "wait_ms", candidate.wait_ms);
    append_member(out, "prefill_ms", candidate.prefill_ms);
    append_member(out, "duplicate_ms", candidate.duplicate_ms);
    append_member(out, "restore_ms", candidate.restore_ms);
    append_member(out, "decode_ms", candidate.decode_ms);
    append_member(out, "pool_ms", candidate.pool_ms);
    out += '}';
}

void append_record(std::string& out, const RouteRecord& record) {
    out += "{\"request_id\":";
    append_json_string(out, record.request_id);
    out += ",\"worker\":";
    append_json_string(out, record.worker);
    out += ",\"reason\":";
    append_json_string(out, record.decision.reason);
    append_count(out, "attempt", record.attempt);
    append_count(out, "prompt_tokens", record.prompt_tokens);
    append_count(out, "expected_cached_tokens", record.decision.expected_cached_tokens);
    out += ",\"real_cached_tokens\":";
    if (record.real_cached_tokens)
        append_json_number(out, std::int64_t{*record.real_cached_tokens});
    else
        out += "null";
    append_member(out, "cost_ms", record.decision.cost_ms);
    out += ",\"candidates\":[";
    for (std::size_t i = 0; i < record.decision.candidates.size(); ++i) {
        if (i > 0) out += ',';
        append_candidate(out, record.decision.candidates[i],
                         i < record.candidate_names.size() ? record.candidate_names[i] : "");
    }
    out += ']';
}

}  // namespace

std::string route_json(const std::vector<const RouteRecord*>& records) {
    std::string out;
    append_record(out, *records.back());
    out += ",\"earlier\":[";
    for (std::size_t i = 0; i + 1 < records.size(); ++i) {
        if (i > 0) out += ',';
        append_record(out, *records[i]);
        out += '}';
    }
    out += "]}";
    return out;
}

}  // namespace taproot::gateway
