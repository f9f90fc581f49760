# SPDX-License-Identifier: MIT
"""The runs that record-plain.py knows, by name: what each changes of BASE."""
import random

LLAMA = dict(model_type="llama", hidden_size=1024, intermediate_size=2816, num_hidden_layers=4,
             num_attention_heads=16, num_key_value_heads=8, vocab_size=32000, tie_word_embeddings=False)
LLAMA_MHA = dict(LLAMA, num_key_value_heads=16)
QWEN2 = dict(model_type="qwen2", hidden_size=896, intermediate_size=4864, num_hidden_layers=4,
             num_attention_heads=14, num_key_value_heads=2, vocab_size=151936, tie_word_embeddings=True)
QWEN25 = dict(model_type="qwen2", hidden_size=3584, intermediate_size=18944, num_hidden_layers=2,
              num_attention_heads=28, num_key_value_heads=4, vocab_size=152064, tie_word_embeddings=False)
QWEN3 = dict(model_type="qwen3", hidden_size=1024, intermediate_size=3072, num_hidden_layers=4,
             num_attention_heads=16, num_key_value_heads=8, head_dim=128, vocab_size=151936,
             tie_word_embeddings=True)
MISTRAL = dict(model_type="mistral", hidden_size=4096, intermediate_size=14336, num_hidden_layers=2,
               num_attention_heads=32, num_key_value_heads=8, vocab_size=32000, sliding_window=None,
               tie_word_embeddings=False)
OPEN3B = dict(model_type="llama", hidden_size=3200, intermediate_size=8640, num_hidden_layers=2,
              num_attention_heads=32, num_key_value_heads=32, vocab_size=32000, tie_word_embeddings=False)
BIASED = dict(LLAMA, attention_bias=True, mlp_bias=True)
LARGE = dict(model_type="llama", hidden_size=4096, intermediate_size=11008, num_hidden_layers=3,
             num_attention_heads=32, num_key_value_heads=32, vocab_size=32000, tie_word_embeddings=False)
TINYLLAMA = dict(model_type="llama", hidden_size=2048, intermediate_size=5632, num_hidden_layers=22,
                 num_attention_heads=32, num_key_value_heads=4, vocab_size=32000, tie_word_embeddings=False)
LLAMA1B = dict(model_type="llama", hidden_size=2048, intermediate_size=8192, num_hidden_layers=4,
               num_attention_heads=32, num_key_value_heads=8, vocab_size=128256, tie_word_embeddings=True)
LLAMA8B = dict(model_type="llama", hidden_size=4096, intermediate_size=14336, num_hidden_layers=3,
               num_attention_heads=32, num_key_value_heads=8, vocab_size=128256, tie_word_embeddings=False)
LLAMA7B = dict(LARGE, num_hidden_layers=12)

BASE = dict(model=LLAMA, framework="plain", batch=1, seq=1024, gas=1, ckpt="none", attn="sdpa", backend="",
            mask=False, dtype="bf16", autocast=False, optimizer="fused", clip=0.0, lora=None, keep=False,
            world=1, steps=3, fsdp={})


def adapters(targets, dropout=0.0, bf16=False, r=16, **more):
    return dict(r=r, targets=targets, dropout=dropout, bf16=bf16, **more)


RUNS = {
    "llama": {},
    "llama-mha-b2": dict(model=LLAMA_MHA, batch=2),
    "llama-odd": dict(batch=3, seq=777),
    "llama-ck": dict(ckpt="nonreentrant", batch=2),
    "llama-ckre": dict(ckpt="reentrant", batch=2),
    "llama-8k-ck": dict(ckpt="nonreentrant", seq=8192),
    "qwen2": dict(model=QWEN2),
    "qwen2-ck": dict(model=QWEN2, ckpt="nonreentrant", batch=2),
    "qwen3": dict(model=QWEN3, batch=2, seq=512),
    "qwen3-ckre": dict(model=QWEN3, ckpt="reentrant"),
    "mistral": dict(model=MISTRAL, seq=2048),
    "open3b": dict(model=OPEN3B),
    "biased": dict(model=BIASED),
    "large-b4": dict(model=LARGE, batch=4, seq=1024),
    "mask": dict(batch=2, mask=True),
    "mask-eager": dict(batch=2, mask=True, attn="eager"),
    "eager": dict(attn="eager", batch=2),
    "eager-fp16": dict(attn="eager", dtype="fp16"),
    "flash": dict(backend="flash", batch=2),
    "efficient": dict(backend="efficient", batch=2, model=LLAMA_MHA),
    "math": dict(backend="math"),
    "fp16": dict(dtype="fp16"),
    "fp32": dict(dtype="fp32"),
    "autocast": dict(dtype="fp32", autocast=True, batch=2),
    "autocast-ck": dict(dtype="fp32", autocast=True, ckpt="nonreentrant"),
    "gas3": dict(gas=3),
    "foreach": dict(optimizer="foreach"),
    "for-loop": dict(optimizer="for-loop"),
    "clip": dict(clip=1.0),
    "keep": dict(keep=True),
    "lora-qv": dict(lora=adapters(["q_proj", "v_proj"])),
    "lora-qv-dropout": dict(lora=adapters(["q_proj", "v_proj"], 0.05)),
    "lora-all-bf16": dict(lora=adapters("all", bf16=True, r=8), batch=2),
    "lora-all-ckre": dict(lora=adapters("all", r=8), ckpt="reentrant"),
    "lora-all-dropout-ck": dict(lora=adapters("all", 0.1, True, 8), ckpt="nonreentrant"),
    "ddp-w4": dict(framework="ddp", world=4),
    "ddp-w4-gas3": dict(framework="ddp", world=4, gas=3),
    "ddp-w8-ck-autocast": dict(framework="ddp", world=8, dtype="fp32", autocast=True, ckpt="nonreentrant"),
    "fsdp2-w4": dict(framework="fsdp2", world=4, batch=2),
    "fsdp2-w8-ck": dict(framework="fsdp2", world=8, ckpt="nonreentrant", batch=2),
    "fsdp2-w4-noreshard": dict(framework="fsdp2", world=4, fsdp=dict(reshard=False)),
    "fsdp2-w4-bf16reduce": dict(framework="fsdp2", world=4, fsdp=dict(reduce="bf16")),
    "fsdp2-w4-bf16": dict(framework="fsdp2", world=4, dtype="bf16", fsdp=dict(pure=True)),
    "fsdp2-w4-gas3": dict(framework="fsdp2", world=4, gas=3),
    "fsdp2-w3-qwen2": dict(framework="fsdp2", world=3, model=QWEN2),
    "fsdp2-w4-offload": dict(framework="fsdp2", world=4, fsdp=dict(offload=True)),
    "fsdp1-w4": dict(framework="fsdp1", world=4, batch=2),
    "fsdp1-w8-ck": dict(framework="fsdp1", world=8, ckpt="nonreentrant", batch=2),
    "fsdp1-w8-ckre": dict(framework="fsdp1", world=8, ckpt="reentrant", batch=2),
    "fsdp1-w4-zero2": dict(framework="fsdp1", world=4, fsdp=dict(strategy="SHARD_GRAD_OP")),
    "fsdp1-w4-pure": dict(framework="fsdp1", world=4, dtype="bf16", fsdp=dict(pure=True)),
    "fsdp1-w4-orig": dict(framework="fsdp1", world=4, fsdp=dict(orig=True)),
    "fsdp1-w4-gas3": dict(framework="fsdp1", world=4, gas=3),
}

# Recorded later, without a look at what zerosim says: MORE.
MORE = {
    "use-cache": dict(use_cache=True),
    "mask-ones": dict(batch=2, mask="ones"),
    "mask-ones-ck": dict(batch=2, mask="ones", ckpt="nonreentrant"),
    "mask-ck": dict(batch=2, mask=True, ckpt="nonreentrant"),
    "mask-lora-ckre": dict(batch=2, mask=True, ckpt="reentrant", lora=adapters("all")),
    "positions": dict(positions="given"),
    "packed": dict(positions="packed"),
    "packed-ck": dict(positions="packed", ckpt="nonreentrant", seq=2048),
    "mistral-window": dict(model=dict(MISTRAL, sliding_window=512), seq=2048),
    "llama1b": dict(model=LLAMA1B, seq=2048),
    "llama1b-ck-b2": dict(model=LLAMA1B, seq=1024, batch=2, ckpt="nonreentrant", clip=1.0),
    "llama8b": dict(model=LLAMA8B, seq=2048),
    "llama8b-ck-4k": dict(model=LLAMA8B, seq=4096, ckpt="nonreentrant"),
    "qwen25": dict(model=QWEN25),
    "qwen25-lora-ck": dict(model=QWEN25, seq=2048, ckpt="nonreentrant", lora=adapters("all", 0.05)),
    "qwen3-lora": dict(model=QWEN3, lora=adapters(["q_proj", "k_proj", "v_proj", "o_proj"])),
    "lora-od": dict(lora=adapters(["o_proj", "down_proj"])),
    "lora-ku-dropout": dict(lora=adapters(["k_proj", "up_proj"], 0.1), batch=2),
    "lora-gate-ck": dict(lora=adapters(["gate_proj", "q_proj"], 0.05), ckpt="nonreentrant"),
    "lora-head": dict(lora=adapters(["q_proj", "v_proj"], save=["lm_head"])),
    "lora-embed-head": dict(lora=adapters("all", save=["embed_tokens", "lm_head"]), ckpt="nonreentrant"),
    "lora-qv-autocast": dict(lora=adapters(["q_proj", "v_proj"], 0.05), autocast=True),
    "lora-all-autocast-ck": dict(lora=adapters("all"), autocast=True, ckpt="nonreentrant"),
    "lora-gas2-clip": dict(lora=adapters("all", r=64), gas=2, clip=1.0, optimizer="foreach"),
    "lora-qwen2-tied": dict(model=QWEN2, lora=adapters("all"), batch=2),
    "amp-fp16": dict(dtype="fp32", autocast="fp16", scaler=True, clip=1.0),
    "fp32-clip-foreach": dict(dtype="fp32", clip=1.0, optimizer="foreach", model=LLAMA_MHA),
    "autocast-gas2": dict(dtype="fp32", autocast=True, gas=2, clip=1.0),
    "autocast-ckre": dict(dtype="fp32", autocast=True, ckpt="reentrant"),
    "autocast-qwen2": dict(dtype="fp32", autocast=True, model=QWEN2),
    "clip-for-loop": dict(clip=1.0, optimizer="for-loop", ckpt="reentrant"),
    "sgd": dict(optimizer="sgd"),
    "sgd-momentum": dict(optimizer="sgd-momentum"),
    "adafactor": dict(optimizer="adafactor"),
    "groups": dict(groups=2, optimizer="foreach", clip=1.0),
    "ddp-lora": dict(framework="ddp", world=4, lora=adapters("all")),
    "ddp-large": dict(framework="ddp", world=4, model=LARGE),
    "ddp-unused": dict(framework="ddp", world=4, ddp=dict(find_unused_parameters=True)),
    "ddp-view": dict(framework="ddp", world=4, ddp=dict(gradient_as_bucket_view=True), gas=2),
    "ddp-tied": dict(framework="ddp", world=2, model=QWEN2, ckpt="nonreentrant"),
    "ddp-lora-ck-autocast": dict(framework="ddp", world=4, lora=adapters("all", 0.05), ckpt="nonreentrant",
                                 autocast=True),
    "fsdp2-clip": dict(framework="fsdp2", world=4, clip=1.0),
    "fsdp2-nosync": dict(framework="fsdp2", world=4, gas=3, fsdp=dict(no_sync=True), clip=1.0),
    "fsdp2-lora": dict(framework="fsdp2", world=4, lora=adapters("all"), fsdp=dict(pure=True)),
    "fsdp2-lora-ck": dict(framework="fsdp2", world=4, lora=adapters(["q_proj", "v_proj"]),
                          ckpt="nonreentrant"),
    "fsdp2-embed": dict(framework="fsdp2", world=4, fsdp=dict(embed=True), ckpt="nonreentrant"),
    "fsdp2-fp32": dict(framework="fsdp2", world=4, dtype="fp32", fsdp=dict(pure=True)),
    "fsdp2-ckre-8b": dict(framework="fsdp2", world=8, model=LLAMA8B, ckpt="reentrant", clip=1.0),
    "fsdp2-tied-1b": dict(framework="fsdp2", world=2, model=LLAMA1B, optimizer="foreach"),
    "fsdp2-autocast": dict(framework="fsdp2", world=4, autocast=True, clip=1.0),
    "fsdp2-offload-ck": dict(framework="fsdp2", world=4, fsdp=dict(offload=True), ckpt="nonreentrant",
                             gas=2, clip=1.0),
    "fsdp1-clip": dict(framework="fsdp1", world=4, clip=1.0),
    "fsdp1-post": dict(framework="fsdp1", world=4, fsdp=dict(prefetch="POST")),
    "fsdp1-noprefetch": dict(framework="fsdp1", world=4, fsdp=dict(prefetch="NONE"), ckpt="nonreentrant"),
    "fsdp1-nosync": dict(framework="fsdp1", world=4, gas=3, fsdp=dict(no_sync=True), clip=1.0),
    "fsdp1-offload": dict(framework="fsdp1", world=4, fsdp=dict(offload=True)),
    "fsdp1-orig-lora": dict(framework="fsdp1", world=4, lora=adapters("all", bf16=True),
                            fsdp=dict(orig=True, pure=True)),
    "fsdp1-orig-ck-8b": dict(framework="fsdp1", world=8, model=LLAMA8B, ckpt="nonreentrant",
                             fsdp=dict(orig=True), clip=1.0),
    "fsdp1-tied": dict(framework="fsdp1", world=4, model=QWEN2, ckpt="nonreentrant"),
    "fsdp1-autocast": dict(framework="fsdp1", world=4, autocast=True, fsdp=dict(orig=True), clip=1.0),
    "real-ddp": dict(framework="ddp", world=2, real=2, model=LARGE),
    "real-ddp-lora": dict(framework="ddp", world=2, real=2, lora=adapters("all"), ckpt="nonreentrant", gas=2),
    "real-ddp-unused": dict(framework="ddp", world=2, real=2, ddp=dict(find_unused_parameters=True), clip=1.0),
    "real-fsdp2": dict(framework="fsdp2", world=2, real=2, model=LARGE, clip=1.0),
    "real-fsdp1-ck": dict(framework="fsdp1", world=2, real=2, model=LLAMA7B, ckpt="nonreentrant", clip=1.0),
    "real-fsdp2-ck": dict(framework="fsdp2", world=2, real=2, model=LLAMA7B, ckpt="nonreentrant", clip=1.0),
    "trainer": dict(trainer={}, dtype="fp32", batch=2),
    "trainer-bf16": dict(trainer={}, dtype="bf16", batch=2, gas=2),
    "trainer-ck": dict(trainer={}, dtype="fp32", batch=2, ckpt="nonreentrant"),
    "trainer-lora": dict(trainer={}, dtype="bf16", batch=2, ckpt="nonreentrant", lora=adapters("all", 0.05)),
    "trainer-fp16": dict(trainer=dict(fp16=True), dtype="fp32", batch=2),
    "trainer-pure": dict(trainer=dict(bf16=False), dtype="bf16", batch=2),
    # the same allocations under limits
    "kf-6.2": dict(framework="fsdp2", world=4, model=TINYLLAMA, clip=1.0, cap=6.2),
    "kf-6.8": dict(framework="fsdp2", world=4, model=TINYLLAMA, clip=1.0, cap=6.8),
    "kf-ck-5.6": dict(framework="fsdp2", world=4, model=TINYLLAMA, clip=1.0, ckpt="nonreentrant", cap=5.6),
    "kp-8.6": dict(model=TINYLLAMA, cap=8.6), "kp-9.2": dict(model=TINYLLAMA, cap=9.2),
    "kp-ck-7.0": dict(model=TINYLLAMA, cap=7.0, ckpt="nonreentrant", batch=4),
    "l8-13.5": dict(model=LLAMA8B, seq=2048, cap=13.5), "l8-15": dict(model=LLAMA8B, seq=2048, cap=15.0),
    "f1-3.2": dict(framework="fsdp1", world=4, model=LLAMA7B, ckpt="nonreentrant", cap=13.0),
    "f1-3.6": dict(framework="fsdp1", world=4, model=LLAMA7B, ckpt="nonreentrant", cap=15.0),
    "lora7-ck": dict(model=LLAMA7B, seq=2048, ckpt="nonreentrant", lora=adapters("all"), cap=7.5),
}


def draw(index):
    """Something at random: shape, length, options."""
    dice = random.Random(1000 + index)
    head = dice.choice([64, 64, 80, 96, 128, 128, 256])
    kv = dice.choice([1, 2, 4, 8])
    heads = kv * dice.choice([1, 2, 3, 4, 7])
    while heads * head > 5120 or heads * head < 512:
        kv = dice.choice([1, 2, 4, 8])
        heads = kv * dice.choice([1, 2, 3, 4, 7])
    kind = dice.choice(["llama", "llama", "qwen2", "qwen3", "mistral"])
    hidden = heads * head if kind != "qwen3" else dice.choice([768, 1024, 2048, 2560])
    model = dict(model_type=kind, hidden_size=hidden, num_attention_heads=heads, num_key_value_heads=kv,
                 intermediate_size=dice.randrange(hidden, 4 * hidden, 64), num_hidden_layers=dice.choice([2, 3, 5]),
                 vocab_size=dice.choice([32000, 32064, 50257, 128256, 151936]),
                 tie_word_embeddings=dice.random() < 0.4)
    if kind == "qwen3":
        model["head_dim"] = head
    if kind == "mistral":
        model["sliding_window"] = None
    seq = dice.choice([256, 512, 1000, 1024, 1536, 2048, 3000, 4096])
    run = dict(model=model, seq=seq, batch=dice.choice([1, 1, 2, 3, 4]) if seq <= 2048 else 1,
               ckpt=dice.choice(["none", "nonreentrant", "reentrant"]), gas=dice.choice([1, 1, 2]),
               optimizer=dice.choice(["fused", "foreach", "for-loop"]), clip=dice.choice([0.0, 1.0]),
               framework=dice.choice(["plain", "plain", "ddp", "fsdp1", "fsdp2"]))
    if run["framework"] != "plain":
        run["world"] = dice.choice([2, 3, 4, 8, 16])
    if run["framework"] == "plain" and dice.random() < 0.5:
        run["lora"] = adapters(dice.choice(["all", ["q_proj", "v_proj"]]), dice.choice([0.0, 0.05]),
                               dice.random() < 0.3, dice.choice([8, 16, 64]))
    elif run["framework"] in ("plain", "ddp") and dice.random() < 0.4:
        run.update(dtype="fp32", autocast=True)
    if run["framework"] == "fsdp1":
        run["fsdp"] = dict(orig=dice.random() < 0.5)
    return run


for number in range(32):
    MORE["random-%02d" % number] = draw(number)


# Micro-batches of many lengths.  LENGTHS: samples drawn as lengths.py does, cut, padded to the longest of their
# micro-batch; their mask is given where there are several.
ALPACA = dict(mean=900, deviation=700, seed=1, cut=4096)


def lengths(more=None, **run):
    return dict(lengths=dict(ALPACA, **(more or {})), steps=run.get("steps", 40 // run.get("gas", 1)),
                history=4 if run.get("gas", 1) == 1 else 1, mask=run.get("batch", 1) > 1,
                **{k: v for k, v in run.items() if k != "steps"})


EXPANDABLE = "expandable_segments:True"
LENGTHS = {
    "full": lengths(),
    "full-es": lengths(conf=EXPANDABLE),
    "full-gas4": lengths(dict(seed=2), gas=4, clip=1.0, optimizer="foreach"),
    "tiny-ck": lengths(model=TINYLLAMA, ckpt="nonreentrant", gas=4, clip=1.0),
    "tiny-lora": lengths(model=TINYLLAMA, lora=adapters("all", r=8), gas=4, clip=1.0),
    "tiny-lora-ck": lengths(model=TINYLLAMA, lora=adapters("all", r=8), ckpt="nonreentrant", gas=4, clip=1.0),
    "tiny-lora-ck-es": lengths(model=TINYLLAMA, lora=adapters("all", r=8), ckpt="nonreentrant", gas=4, clip=1.0,
                                   conf=EXPANDABLE),
    "1b-ckre": lengths(dict(seed=3), model=LLAMA1B, ckpt="reentrant"),
    "1b-lora": lengths(dict(seed=3), model=LLAMA1B, lora=adapters("all", 0.05)),
    "1b-lora-ck": lengths(model=LLAMA1B, lora=adapters("all"), ckpt="nonreentrant"),
    "1b-lora-ck-es": lengths(model=LLAMA1B, lora=adapters("all"), ckpt="nonreentrant", conf=EXPANDABLE),
    "1b-lora-ck-pad": lengths(dict(multiple=256), model=LLAMA1B, lora=adapters("all"), ckpt="nonreentrant"),
    "1b-lora-ck-keep": lengths(model=LLAMA1B, lora=adapters("all"), ckpt="nonreentrant", keep=True, gas=4, clip=1.0),
    "1b-lora-ck-split": lengths(model=LLAMA1B, lora=adapters("all"), ckpt="nonreentrant",
                                    conf="max_split_size_mb:256"),
    "1b-lora-ck-power2": lengths(model=LLAMA1B, lora=adapters("all"), ckpt="nonreentrant",
                                     conf="roundup_power2_divisions:4"),
    "1b-lora-ck-empty": lengths(model=LLAMA1B, lora=adapters("all"), ckpt="nonreentrant", empty=4),
    "1b-lora-ck-flash": lengths(model=LLAMA1B, lora=adapters("all"), ckpt="nonreentrant", backend="flash"),
    "b2": lengths(batch=2),
    "b2-es": lengths(batch=2, conf=EXPANDABLE),
    "b2-drop": lengths(dict(cut=1024, drop=True), batch=2, model=LLAMA_MHA),
    "1b-b2-lora-ck": lengths(batch=2, model=LLAMA1B, lora=adapters("all"), ckpt="nonreentrant"),
    "1b-b2-lora-ck-es": lengths(batch=2, model=LLAMA1B, lora=adapters("all"), ckpt="nonreentrant", conf=EXPANDABLE),
    "b2-eager": lengths(dict(cut=2048), batch=2, attn="eager"),
    "qwen-b2-ck": lengths(dict(cut=2048, seed=4), batch=2, model=QWEN2, ckpt="nonreentrant", gas=2),
    "autocast-b2-ck": lengths(dict(cut=2048), batch=2, dtype="fp32", autocast=True, ckpt="nonreentrant", clip=1.0),
    "ddp": lengths(framework="ddp", world=4, gas=2),
    "fsdp2-ck": lengths(framework="fsdp2", world=4, ckpt="nonreentrant", clip=1.0),
    "long-cut": lengths(dict(mean=3234, deviation=2547, seed=0, cut=8192), model=LLAMA1B, ckpt="nonreentrant",
                            lora=adapters("all"), gas=16, steps=8),
    "trainer-lora-ck": lengths(trainer={}, dtype="bf16", batch=2, model=LLAMA1B, ckpt="nonreentrant",
                                   lora=adapters("all")),
    "trainer-lora-ck-b1": lengths(trainer={}, dtype="bf16", model=LLAMA1B, ckpt="nonreentrant", lora=adapters("all"),
                                      gas=4),
}
# within limits: between the peaks of allocated and reserved bytes, and below the former
for name, caps in {"1b-lora-ck": (11.160, 7.378, 6.111), "tiny-lora": (15.807, 12.841), "b2": (7.352, 5.110),
                   "1b-lora-ck-es": (7.177,), "1b-lora-ck-split": (23.493,)}.items():
    for number, cap in enumerate(caps):
        LENGTHS["%s-cap%d" % (name, number)] = dict(LENGTHS[name], cap=cap)
LENGTHS["1b-lora-ck-gc"] = dict(LENGTHS["1b-lora-ck"], cap=11.160, conf="garbage_collection_threshold:0.6")
