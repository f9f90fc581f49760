#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes models/gpus, models/llms and models/instances from the tables in tests/data/models.

    tests/tools/make-models.py            from the top of the source tree

Run it after a table or a rule below has changed, and look at the difference before it is committed: the files
in models/ are what the program reads and may be edited by hand, as any GPU that is added later will be.
"""
import json
import os
import re

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
DATA = os.path.join(TOP, 'tests/data/models')


def table(name):
    lines = [l.rstrip('\n') for l in open(os.path.join(DATA, name), encoding='utf-8') if not l.startswith('#')]
    head = lines[0].split('\t')
    return [dict(zip(head, line.split('\t') + [''] * len(head))) for line in lines[1:] if line]


def write(path, text):
    path = os.path.join(TOP, path)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    open(path, 'w', encoding='utf-8').write(text)


def number(value):
    return ('%.6g' % value)


# ---- GPUs ----

# Best large bf16 (fp16 before Ampere) product / dense peak where the table has no measurement: (fraction, why).
MATMUL = {
    'P100-PCIE-16GB': (0.8, 'no tensor cores: fp16 at twice the fp32 rate'),
    'P100-SXM2-16GB': (0.8, 'no tensor cores: fp16 at twice the fp32 rate'),
    'V100-SXM2-16GB': (0.71, 'as the V100S: 88.9 of 125 TFLOPS in fp16'),
    'V100-SXM2-32GB': (0.71, 'as the V100S: 88.9 of 125 TFLOPS in fp16'),
    'V100-PCIE-16GB': (0.71, 'as the V100S'),
    'V100-PCIE-32GB': (0.71, 'as the V100S'),
    'RTX-2080-Ti': (0.95, 'GeForce boosts above the clock of its specification, as the 3090 does'),
    'RTX-A5000': (0.80, 'as the A6000 (GA102, measured)'),
    'RTX-6000-Ada': (0.74, 'as the L40S (AD102, measured)'),
    'A10': (0.60, 'power-limited to 150 W'),
    'A10G': (0.90, 'half-rate tensor cores: 70 TFLOPS are within reach'),
    'A30': (0.82, 'as the A100 PCIe (GA100, measured)'),
    'A40': (0.80, 'as the A6000 (GA102, measured)'),
    'L4': (0.55, 'power-limited to 72 W: 50 to 65 % of the peak'),
    'L40': (0.90, 'half-rate tensor cores: 181 TFLOPS are within reach'),
    'A100-SXM4-40GB': (0.85, 'as the A100-SXM4-80GB (271 of 312 measured) and the PCIe card (247)'),
    'A800-PCIE-80GB': (0.81, 'as the A100-PCIE-80GB'),
    'H800-SXM-80GB': (0.80, 'as the H100 SXM'),
    'H100-PCIE-80GB': (0.75, 'as the H100 SXM, less for 350 W'),
    'H100-NVL-94GB': (0.78, 'as the H100 SXM, less for 400 W'),
    'GH200-96GB': (0.80, 'as the H100 SXM'),
    'MI250-GCD': (0.50, 'as the MI300X'),
    'MI250X-GCD': (0.50, 'as the MI300X'),
}
# Best vectorised kernel / specified memory rate: (fraction, origin, why).
MEMORY = {
    'H200-SXM-141GB': (0.887, 'measured', 'copy of 1 GiB: 4256 of 4800 GB/s, read and written, torch 2.11'),
    'B200-SXM-180GB': (0.67, 'published', "SimuMax's B200 configuration"),
    'A100-PCIE-80GB': (0.85, 'assumed', 'between a fit to elementwise kernels by SimuMax (1456 GB/s) and the H200'),
}
MEMORY_BY_KIND = [
    (r'H100|H800|GH200|H20-', (0.88, 'as the H200')),
    (r'A100|A800|A30', (0.87, 'HBM2e; as the H200')),
    (r'V100|P100', (0.85, 'HBM2')),
    (r'MI', (0.75, 'no measurement')),
    (r'', (0.88, 'GDDR; large copies')),
]
# The name that the program uses, the form, and other spellings.  Case, blanks, - and _ do not count, nor does a
# vendor's name in front ("NVIDIA", "Tesla", "GeForce", "AMD Instinct"), and "40G" is "40GB".
GPUS = {
    'P100-PCIE-16GB': ('pcie', ['P100-16GB', 'P100', 'P100-PCIE']),
    'P100-SXM2-16GB': ('sxm', ['P100-16GB', 'P100', 'P100-SXM2']),
    'V100-SXM2-16GB': ('sxm', ['V100', 'V100-16GB', 'V100-SXM-16GB', 'V100 SXM2 16GB']),
    'V100-SXM2-32GB': ('sxm', ['V100', 'V100-32GB', 'V100-SXM-32GB', 'V100-SXM3-32GB', 'V100 SXM2 32GB']),
    'V100-PCIE-16GB': ('pcie', ['V100', 'V100-16GB', 'V100 PCIe 16GB']),
    'V100-PCIE-32GB': ('pcie', ['V100', 'V100-32GB', 'V100 PCIe 32GB']),
    'T4': ('pcie', ['T4-16GB', 'T4G']),
    'RTX-2080-Ti': ('pcie', ['2080Ti', '2080 Ti', 'RTX-2080-Ti-11GB']),
    'RTX-3090': ('pcie', ['3090', 'RTX-3090-24GB', '3090-24GB']),
    'RTX-4090': ('pcie', ['4090', 'RTX-4090-24GB', '4090-24GB']),
    'RTX-5090': ('pcie', ['5090', 'RTX-5090-32GB', '5090-32GB']),
    'RTX-A5000': ('pcie', ['A5000', 'RTX-A5000-24GB']),
    'RTX-A6000': ('pcie', ['A6000', 'A6000-48GB', 'RTX-A6000-48GB', 'Quadro RTX A6000']),
    'RTX-6000-Ada': ('pcie', ['RTX 6000 Ada Generation', '6000-Ada', 'RTX6000Ada-48GB']),
    'RTX-PRO-6000-Blackwell-Server': ('pcie', ['RTX PRO 6000', 'RTX PRO 6000 Blackwell', 'RTX-PRO-6000-96GB',
                                               'RTX PRO 6000 Blackwell Server Edition']),
    'A10': ('pcie', ['A10-24GB', 'A10-PCIE-24GB']),
    'A10G': ('pcie', ['A10G-24GB']),
    'A30': ('pcie', ['A30-24GB']),
    'A40': ('pcie', ['A40-48GB', 'A40-PCIE-48GB']),
    'L4': ('pcie', ['L4-24GB']),
    'L40': ('pcie', ['L40-48GB']),
    'L40S': ('pcie', ['L40S-48GB']),
    'L20': ('pcie', ['L20-48GB']),
    'A100-PCIE-40GB': ('pcie', ['A100', 'A100-40GB', 'A100 40GB PCIe', 'A100-PCI-40GB']),
    'A100-SXM4-40GB': ('sxm', ['A100', 'A100-40GB', 'A100-SXM-40GB', 'A100 40GB SXM', 'A100 40GB SXM4']),
    'A100-PCIE-80GB': ('pcie', ['A100', 'A100-80GB', 'A100 80GB PCIe', 'A100-PCI-80GB']),
    'A100-SXM4-80GB': ('sxm', ['A100', 'A100-80GB', 'A100-SXM-80GB', 'A100 80GB SXM', 'A100 80GB SXM4']),
    'A800-SXM4-80GB': ('sxm', ['A800-80GB', 'A800', 'A800-SXM-80GB']),
    'A800-PCIE-80GB': ('pcie', ['A800-80GB', 'A800', 'A800 80GB PCIe']),
    'H20-96GB': ('sxm', ['H20', 'H20-SXM-96GB']),
    'H800-SXM-80GB': ('sxm', ['H800', 'H800-80GB', 'H800-SXM5-80GB']),
    'H100-PCIE-80GB': ('pcie', ['H100', 'H100-80GB', 'H100-PCIE', 'H100 80GB PCIe']),
    'H100-SXM5-80GB': ('sxm', ['H100', 'H100-80GB', 'H100-80GB-HBM3', 'H100-SXM', 'H100-SXM5', 'H100-SXM-80GB',
                               'H100 80GB SXM5']),
    'H100-NVL-94GB': ('pcie', ['H100-NVL', 'H100-94GB']),
    'GH200-96GB': ('superchip', ['GH200', 'GH200-480GB', 'Grace Hopper']),
    'H200-SXM-141GB': ('sxm', ['H200', 'H200-141GB', 'H200-SXM', 'H200-SXM5-141GB']),
    'B200-SXM-180GB': ('sxm', ['B200', 'B200-180GB', 'B200-SXM', 'B200-SXM6-180GB', 'B200-192GB']),
    'MI250-GCD': ('oam', ['MI250', 'MI250-64GB']),
    'MI250X-GCD': ('oam', ['MI250X', 'MI250X-64GB']),
    'MI300X': ('oam', ['MI300X-192GB', 'MI300X-OAM']),
}
# What the table leaves open.
PRO6000 = 'derived from 4000 sparse fp4 TOPS of the data sheet'
FILL = {
    'RTX-PRO-6000-Blackwell-Server': {'fp32_tflops': ('120', 'data sheet, from memory'), 'tf32_dense_tflops': ('250', PRO6000),
                                      'fp16_dense_tflops': ('500', PRO6000), 'bf16_dense_tflops': ('500', PRO6000)},
}
PINNED = {3: (12.3, 'assumed', 'public reports of 12 to 13 GB/s'),
          4: (25, 'assumed', "public reports of 24 to 26 GB/s"),
          5: (55.4, 'measured', 'one H200, both directions alike, 256 MiB and more')}


def of(value, origin, source):
    return '{value: %s, origin: %s, source: "%s"}' % (value, origin, source)


def gpu(row):
    name = row['name']
    form, aliases = GPUS[name]
    nvidia = row['vendor'] == 'NVIDIA'
    out = []
    out.append('# %s %s.  Dense rates, no sparsity.  A bare number is from `source`; others say where they are from.' % (row['vendor'], name))
    if row['notes']:
        out.append('# ' + row['notes'])
    out.append('name: ' + name.lower())
    full = ('NVIDIA ' if nvidia else 'AMD ') + name
    if name.startswith('RTX-') and re.search(r'\d0[89]0', name):
        full = 'NVIDIA GeForce ' + name.replace('-', ' ')
    out.append('aliases: [%s]' % ', '.join('"%s"' % a for a in [full] + aliases))
    out.append('source: "%s"' % row['sources'].replace('"', "'"))
    out.append('vendor: ' + row['vendor'].lower())
    out.append('form: ' + form)
    if nvidia:
        out.append('compute_capability: ' + row['compute_capability'])
    else:
        out.append('architecture: ' + row['compute_capability'])
    out.append('sm_count: ' + row['sm_count'])

    # what torch reports as total_memory
    typical = row['torch_total_GiB_typical']
    observed = [m for m in re.findall(r'\d+', row['torch_total_MiB_observed'].split('(')[0])]
    match = [m for m in observed if typical and abs(int(m) / 1024 - float(typical)) < 0.006]
    smi = ('%s MiB in nvidia-smi' % row['nvidia_smi_total_MiB']) if row['nvidia_smi_total_MiB'] else 'total as torch reports it'
    if name == 'H200-SXM-141GB':
        out.append('memory: ' + of('150109880320 B', 'measured', 'torch total_memory, driver 580; 143771 MiB in nvidia-smi'))
    elif match:
        out.append('memory: ' + of(match[-1] + ' MiB', 'published', 'total_memory in public logs; ' + smi))
    elif typical:
        guess = 'assumed as' in row['notes'] or 'derived' in row['notes'] or not smi
        out.append('memory: ' + of(typical + ' GiB', 'assumed' if guess else 'published', 'total_memory in public logs; ' + smi))
    else:
        out.append('memory: ' + of('%d MiB' % (int(row['nvidia_smi_total_MiB']) - 500), 'assumed', smi + ', less what the driver keeps on an A100'))
    out.append('memory_rate: %s GB/s' % row['mem_bandwidth_GBps'])
    out.append('l2: %s MiB' % row['l2_MB'])
    for key, column in (('fp32', 'fp32_tflops'), ('tf32', 'tf32_dense_tflops'), ('fp16', 'fp16_dense_tflops'), ('bf16', 'bf16_dense_tflops')):
        if row[column]:
            out.append('%s_tflops: %s' % (key, row[column]))
        elif column in FILL.get(name, {}):
            value, why = FILL[name][column]
            out.append('%s_tflops: %s' % (key, of(value, 'assumed', why)))
            row[column] = value
        else:
            out.append('%s_tflops: 0   # not in hardware' % key)
    out.append('pcie: {generation: %s, width: %s}' % (row['pcie_gen'], row['pcie_width']))
    if nvidia and row['nvlink_gen']:
        out.append('nvlink: {generation: %s, links: %s}%s' % (row['nvlink_gen'], row['nvlink_links'],
                   '   # through bridges only' if form == 'pcie' else ''))
    elif row['nvlink_total_GBps_bidir']:
        out.append('# Infinity Fabric, %s GB/s both ways, is not modelled' % row['nvlink_total_GBps_bidir'])
    p2p = row['p2p_over_pcie']
    out.append('p2p_over_pcie: %s%s' % ('false' if p2p.startswith('no') else 'true', '   # ' + p2p if ' ' in p2p else ''))

    sms = int(row['sm_count'])
    if name == 'H200-SXM-141GB':
        out.append('context: ' + of('836 MiB', 'measured', 'outside torch after a few ZeRO steps: 836 to 848 MiB; torch 2.11, driver 580'))
    else:
        out.append('context: ' + of('%d MiB' % (308 + 4 * sms), 'assumed',
                                    'the H200 (836 MiB, measured) scaled by SMs: 308 MiB + 4 MiB each; A100 of 2023: 481 MiB before kernels load'))

    peak = float(row['bf16_dense_tflops'] or row['fp16_dense_tflops'])
    half = row['bf16_dense_tflops'] != ''
    gemm = row['measured_gemm_bf16_tflops'] if half and row['measured_gemm_bf16_tflops'] else row['measured_gemm_fp16_tflops']
    if gemm:
        ours = name == 'H200-SXM-141GB'
        out.append('matmul_efficiency: ' + of(number(round(float(gemm) / peak, 3)), 'measured' if ours else 'published',
                                              'best large product: %s of %s TFLOPS%s' % (gemm, number(peak), '; torch 2.11, 8192 tokens' if ours else '')))
    else:
        fraction, why = MATMUL[name]
        out.append('matmul_efficiency: ' + of(number(fraction), 'assumed', why))
    if name == 'H200-SXM-141GB':
        out.append('matmul_full_clock: ' + of('0.892', 'measured', 'one H200: products in 36 training steps, torch 2.11'))
    elif re.match('A[18]00-', name):
        out.append('matmul_full_clock: ' + of('0.89', 'assumed', 'as the H200 (measured); published steps leave less than a tenth for all '
                                              'else if products lose to power what they lose there'))
    if name in MEMORY:
        fraction, origin, why = MEMORY[name]
        out.append('memory_efficiency: ' + of(number(fraction), origin, why))
    else:
        fraction, why = next(v for k, v in MEMORY_BY_KIND if re.search(k, name))
        out.append('memory_efficiency: ' + of(number(fraction), 'assumed', why))
    # H200: tests/data/h200-steps; A100, H100: nine of ten of 77 and 76 published throughputs (e2e) are within it
    error = (0.05 if name == 'H200-SXM-141GB' else 0.4 if not nvidia else 0.12 if name == 'A100-SXM4-80GB' else
             0.15 if re.match('A100|A800-SXM|H100-SXM', name) else 0.2 if gemm else 0.25)
    out.append('expected_error: %s   # of the time of a step that the GPU bounds: nine of ten are within' % number(error))
    if name == 'GH200-96GB':
        out.append('pinned_copy_rate: ' + of('350 GB/s', 'assumed', 'NVLink-C2C, 450 GB/s a direction'))
    else:
        rate, origin, why = PINNED[int(row['pcie_gen'])]
        if origin == 'measured' and name != 'H200-SXM-141GB':
            origin, why = 'assumed', 'as the H200 (measured)'
        out.append('pinned_copy_rate: ' + of('%s GB/s' % number(rate), origin, why))
    write('models/gpus/%s.yaml' % name.lower(), '\n'.join(out) + '\n')


# ---- language models ----

MODEL_TYPE = {'LlamaForCausalLM': 'llama', 'MistralForCausalLM': 'mistral', 'Qwen2ForCausalLM': 'qwen2', 'Qwen3ForCausalLM': 'qwen3'}
MODEL_ALIASES = {
    'llama-7b': ['llama-1-7b', 'decapoda-research/llama-7b-hf', 'yahma/llama-7b-hf'],
    'llama-13b': ['llama-1-13b'], 'llama-30b': ['llama-33b', 'llama-1-30b', 'llama-1-33b'], 'llama-65b': ['llama-1-65b'],
    'llama-2-7b': ['llama2-7b', 'meta-llama/Llama-2-7b-chat-hf', 'NousResearch/Llama-2-7b-hf'],
    'llama-2-13b': ['llama2-13b', 'meta-llama/Llama-2-13b-chat-hf'],
    'llama-2-70b': ['llama2-70b', 'meta-llama/Llama-2-70b-chat-hf'],
    'llama-3-8b': ['llama3-8b', 'meta-llama/Meta-Llama-3-8B-Instruct'],
    'llama-3-70b': ['llama3-70b', 'meta-llama/Meta-Llama-3-70B-Instruct'],
    'llama-3.1-8b': ['llama3.1-8b', 'meta-llama/Meta-Llama-3.1-8B', 'meta-llama/Llama-3.1-8B-Instruct', 'meta-llama/Meta-Llama-3.1-8B-Instruct'],
    'llama-3.1-70b': ['llama3.1-70b', 'meta-llama/Meta-Llama-3.1-70B', 'meta-llama/Llama-3.1-70B-Instruct'],
    'llama-3.1-405b': ['llama3.1-405b', 'meta-llama/Meta-Llama-3.1-405B', 'meta-llama/Llama-3.1-405B-Instruct'],
    'llama-3.2-1b': ['llama3.2-1b', 'meta-llama/Llama-3.2-1B-Instruct'],
    'llama-3.2-3b': ['llama3.2-3b', 'meta-llama/Llama-3.2-3B-Instruct'],
    'llama-3.3-70b': ['llama3.3-70b'],
    'tinyllama-1.1b': ['tinyllama', 'tinyllama-1b', 'TinyLlama/TinyLlama_v1.1'],
    'open-llama-3b': ['openllama-3b'],
    'mistral-7b-v0.1': ['mistral-7b', 'mistralai/Mistral-7B-Instruct-v0.1'],
    'mistral-7b-v0.3': ['mistralai/Mistral-7B-Instruct-v0.3'],
}


def llm(row):
    number_of = lambda key: int(row[key])
    aliases = [row['hf_repo']] + MODEL_ALIASES.get(row['name'], [])
    if row['name'].startswith('qwen2'):
        aliases += [row['hf_repo'] + '-Instruct']
    if row['name'].startswith('qwen3'):
        aliases += [row['hf_repo'] + '-Base']
    config = {
        'name': row['name'],
        'aliases': aliases,
        'source': 'dimensions of config.json of %s' % row['hf_repo'],
        'architectures': [row['architecture']],
        'model_type': MODEL_TYPE[row['architecture']],
        'hidden_size': number_of('hidden_size'),
        'intermediate_size': number_of('intermediate_size'),
        'num_hidden_layers': number_of('num_layers'),
        'num_attention_heads': number_of('num_heads'),
        'num_key_value_heads': number_of('num_kv_heads'),
        'head_dim': number_of('head_dim'),
        'vocab_size': number_of('vocab_size'),
        'max_position_embeddings': number_of('max_position'),
        'rope_theta': float(row['rope_theta']),
        'tie_word_embeddings': row['tied_embeddings'] == '1',
    }
    if row['architecture'] == 'LlamaForCausalLM' or row['architecture'] == 'Qwen3ForCausalLM':
        config['attention_bias'] = False
    if row['architecture'] == 'LlamaForCausalLM':
        config['mlp_bias'] = False
    if row['name'] == 'mistral-7b-v0.1':
        config['sliding_window'] = 4096
    if 'qwen' in row['name']:
        config['use_sliding_window'] = False
    config['torch_dtype'] = 'float16' if re.match(r'(llama-\d+b|llama-2|open-llama)', row['name']) else 'bfloat16'
    write('models/llms/%s.json' % row['name'], json.dumps(config, indent=2) + '\n')


# ---- machines ----

# CPU: (vendor, GB/s of a socket's channels, cores of a socket); facts: channels * MT/s * 8 bytes.
CPUS = [
    (r'E5-26\d\d v4', ('intel', 76.8, 18)), (r'8175M|8168', ('intel', 128, 24)),
    (r'8275CL|Cascade Lake', ('intel', 140.8, 24)), (r'848[01]|Sapphire', ('intel', 307.2, 52)),
    (r'8570|Emerald', ('intel', 358.4, 56)), (r'Genoa', ('amd', 460.8, 96)),
    (r'7R32|7V12|7742|7542', ('amd', 204.8, 64)), (r'7R13|7V13', ('amd', 204.8, 64)),
]


def fabric(row):
    text = row['interconnect']
    if 'NVSwitch' in text:
        return 'nvswitch'
    if text.startswith('NVLink2'):
        return 'nvlink-mesh-v100'
    if 'NVLink' in text:
        return 'nvlink'
    if row['name'] == '8x4090-dual-epyc7542' or 'x2' in row['cpu']:
        return 'pcie%s-x16-two-sockets' % text[4]
    return 'pcie'


def network(row):
    if not row['net_Gbps_total']:
        return None
    total = float(row['net_Gbps_total'])
    kind = ('efa' if 'EFA' in row['nics'] else 'infiniband' if 'IB' in row['nics'] else
            'roce' if row['name'] in ('DGX-B200',) else 'ethernet')
    if row['name'] == 'DGX-B200':
        kind = 'infiniband'
    match = re.search(r'(\d+)x(\d+)', row['nics'])
    nics, rate = (int(match.group(1)), float(match.group(2))) if match else (1, total)
    return '{nics: %d, rate: %s Gb/s, kind: %s}' % (nics, number(rate), kind)


def nvme(row):
    text = row['local_nvme']
    if text in ('', 'none', 'none (EBS)', 'optional local SSD') or 'temp SSD' in text:
        return None
    match = re.match(r'(\d+)x', text)
    drives = int(match.group(1)) if match else 0
    if row['name'] == 'Standard_NC96ads_A100_v4':
        return '{read: 10 GB/s, write: 5 GB/s}   # 4 SSDs in RAID 0, measured by DeepNVMe'
    if 'SATA' in text:
        return '{read: %s GB/s, write: %s GB/s}   # SATA, RAID 0; assumed' % (number(0.55 * drives), number(0.5 * drives))
    if row['provider'] == 'NVIDIA':
        return '{read: %s GB/s, write: %s GB/s}   # %s, U.2 PCIe 4, RAID 0; assumed' % (number(6.5 * drives), number(3.5 * drives), text)
    if drives == 0:
        return '{read: 10 GB/s, write: 5 GB/s}   # %s; assumed' % text
    if '375 GB' in text:
        return '{read: %s GB/s, write: %s GB/s}   # %s; local SSD, assumed' % (number(0.66 * drives), number(0.35 * drives), text)
    return '{read: %s GB/s, write: %s GB/s}   # %s as Azure NC96ads measured them, RAID 0; assumed' % (
        number(2.5 * drives), number(1.25 * drives), text)


def instance(row):
    name = row['name'].lower().replace('_', '-')
    out = ['# %s: %s%s' % (row['name'], row['provider'], '; ' + row['topology'] if row['topology'] and 'data/' not in row['topology'] else '')]
    if row['notes'] and 'data/' not in row['notes']:
        out.append('# ' + row['notes'])
    out.append('name: ' + name)
    out.append('aliases: ["%s"]' % row['name'])
    out.append('source: "%s"' % (row['sources'] or 'an example').replace('"', "'"))
    out.append('provider: ' + row['provider'])
    out.append('gpu: ' + row['gpu'].lower())
    out.append('gpus_per_node: ' + row['gpus'])
    out.append('fabric: ' + fabric(row))
    if network(row):
        out.append('network: ' + network(row))
    host = []
    cpu = next((v for k, v in CPUS if re.search(k, row['cpu'])), None)
    cores = int(row['vcpus']) // 2 if row['vcpus'] else 0
    sockets = 2 if 'x2' in row['cpu'] else 1
    if cpu and sockets == 1 and cores > cpu[2]:
        sockets = 2
    if not row['cpu']:
        sockets = 2 if int(row['gpus']) >= 8 else 1
    if cpu:
        host.append('cpu: ' + cpu[0])
    elif not row['cpu']:
        host.append('cpu: %s' % ('amd' if 'RTX' in row['gpu'] or 'A100' in row['gpu'] else 'intel'))
    if row['host_ram_GiB']:
        host.append('memory: %s GiB' % row['host_ram_GiB'])
    if cpu:
        host.append('memory_rate: %s GB/s' % number(round(cpu[1] * sockets * 0.8)))
    if cores:
        host.append('cores: %d' % cores)
    host.append('sockets: %d' % sockets)
    out.append('host: {%s}   # %s; memory rate: 80 %% of the channels' % (', '.join(host), row['cpu'] or 'CPU assumed'))
    if nvme(row):
        out.append('nvme: ' + nvme(row))
    write('models/instances/%s.yaml' % name, '\n'.join(out) + '\n')


for r in table('gpus.tsv'):
    gpu(r)
for r in table('models.tsv'):
    llm(r)
for r in table('instances.tsv'):
    instance(r)
