# SPDX-License-Identifier: MIT
"""snapshot.py check FILE: does Python read FILE as a snapshot that the memory viewer can draw?
snapshot.py make TSV.GZ FILE PROTOCOL CONF: a snapshot as torch.cuda.memory._dump_snapshot () writes
it, from a recorded history."""
import gzip
import pickle
import sys


def check(path):
    with open(path, "rb") as file:
        snapshot = pickle.load(file)
    assert set(snapshot) == {"segments", "device_traces", "allocator_settings",
                             "external_annotations"}, set(snapshot)
    last = -1
    for segment in snapshot["segments"]:
        assert segment["address"] > last and segment["segment_pool_id"] == (0, 0)
        last = segment["address"]
        at = segment["address"]
        active = 0
        for block in segment["blocks"]:
            assert block["address"] == at, "blocks tile their segment"
            assert block["state"] in ("active_allocated", "active_awaiting_free", "inactive")
            active += 0 if block["state"] == "inactive" else block["size"]
            assert all(isinstance(f["filename"], str) and isinstance(f["name"], str)
                       for f in block["frames"])
            at += block["size"]
        assert at == segment["address"] + segment["total_size"]
        assert active == segment["active_size"]
    # As the viewer does: from the end backwards to an empty allocator.
    live = {block["address"]: block["requested_size"] for segment in snapshot["segments"]
            for block in segment["blocks"] if block["state"] != "inactive"}
    mapped = sum(segment["total_size"] for segment in snapshot["segments"])
    assert len(snapshot["device_traces"]) == 1
    trace = snapshot["device_traces"][0]
    assert any(entry["category"] == "unknown" for entry in trace)
    for entry in reversed(trace):
        action, size = entry["action"], entry["size"]
        if action == "alloc":
            assert live.pop(entry["addr"]) == size
            assert entry["frames"] == [{"filename": "phase", "line": 0, "name": "tensor"}]
        elif action == "free_completed":
            assert entry["addr"] not in live
            live[entry["addr"]] = size
        elif action in ("segment_alloc", "segment_map"):
            mapped -= size
        elif action in ("segment_free", "segment_unmap"):
            mapped += size
    assert not live and mapped == 0


def make(table, path, protocol, conf):
    trace = []
    with gzip.open(table, "rt") as file:
        file.readline()
        for line in file:
            action, address, size, stream = line.split()
            trace.append({"action": action, "device_free" if action == "oom" else "addr": int(address),
                          "size": int(size), "stream": int(stream), "time_us": 1796060992373417,
                          "compile_context": "N/A", "user_metadata": "",
                          "frames": [{"filename": "a.py", "line": 70000, "name": "f"}]})
    trace.insert(5, {"action": "user_defined", "addr": 0, "size": 0, "stream": 0, "frames": []})
    trace.append({"action": "snapshot", "addr": 0, "size": 5, "stream": 0, "frames": []})
    snapshot = {"segments": [], "device_traces": [[], trace],
                "allocator_settings": {"PYTORCH_CUDA_ALLOC_CONF": conf, "max_split_size": -1,
                                       "garbage_collection_threshold": 0.0, "expandable_segments": False,
                                       "roundup_power2_divisions": {"1": 0, "2": 0}},
                "external_annotations": []}
    with open(path, "wb") as file:
        pickle.dump(snapshot, file, protocol=protocol)


if sys.argv[1] == "check":
    check(sys.argv[2])
else:
    make(sys.argv[2], sys.argv[3], int(sys.argv[4]), sys.argv[5])
