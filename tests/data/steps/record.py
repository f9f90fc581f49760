import torch, gc, sys, os, gzip, time, traceback, json, contextlib
from transformers import LlamaConfig, LlamaForCausalLM, Qwen2Config, Qwen2ForCausalLM, Qwen3Config, Qwen3ForCausalLM
out=os.environ['OUT']; dev='cuda'
F=gzip.open(out+'/rec.tsv.gz','wt')
def run(name,B=2,S=1024,attn='sdpa',ckpt=None,lora=None,mask=False,tied=False,model='llama',opt='fused',steps=2,gas=1,keep=False,dtype=torch.bfloat16,
        autocast=False,backend=None,h=1024,I=2816,H=16,K=4,L=3,V=20000,clip=True,abias=False,mbias=False,ddp=False,irg=None,d=None,cast=False,usecache=False):
    cfg=dict(name=name,B=B,S=S,attn=attn,ckpt=ckpt,lora=lora,mask=mask,tied=tied,model=model,opt=opt,steps=steps,gas=gas,keep=keep,dtype=str(dtype),autocast=autocast,
             backend=backend,h=h,I=I,H=H,K=K,L=L,V=V,clip=clip,abias=abias,mbias=mbias,ddp=ddp,irg=irg,d=d,cast=cast,usecache=usecache)
    F.write('C\t'+json.dumps(cfg)+'\n')
    gc.collect(); torch.cuda.synchronize(); torch.cuda.empty_cache(); torch.cuda.reset_peak_memory_stats()
    marks=[]
    base=torch.cuda.memory_allocated()
    def mark(p):
        torch.cuda.synchronize()
        s=torch.cuda.memory_stats()
        marks.append((p,time.time_ns()//1000,s['allocated_bytes.all.current'],s['allocated_bytes.all.peak'],s['requested_bytes.all.peak'],s['reserved_bytes.all.current'],s['requested_bytes.all.current']))
        torch.cuda.reset_peak_memory_stats(); time.sleep(0.0005)
    torch.cuda.memory._record_memory_history(enabled=None)
    torch.cuda.memory._record_memory_history(enabled='all',context=None,stacks='python',max_entries=2000000)
    err=None
    try:
        ids=torch.randint(0,V,(B,S),device=dev)
        kw=dict(vocab_size=V,hidden_size=h,intermediate_size=I,num_hidden_layers=L,num_attention_heads=H,num_key_value_heads=K,max_position_embeddings=4096,
                tie_word_embeddings=tied,attn_implementation=attn,use_cache=usecache)
        if d: kw['head_dim']=d
        C,M={'llama':(LlamaConfig,LlamaForCausalLM),'qwen2':(Qwen2Config,Qwen2ForCausalLM),'qwen3':(Qwen3Config,Qwen3ForCausalLM)}[model]
        if model=='llama': kw.update(attention_bias=abias,mlp_bias=mbias)
        c=C(**kw); c._attn_implementation=attn
        if cast:
            m=M(c).to(dev).to(dtype)
        else:
            old=torch.get_default_dtype(); torch.set_default_dtype(dtype)
            with torch.device(dev): m=M(c)
            torch.set_default_dtype(old)
        m.train()
        mark('model')
        if lora:
            from peft import LoraConfig,get_peft_model
            r,t,dt,p=lora
            m=get_peft_model(m,LoraConfig(r=r,target_modules=t,lora_dropout=p,lora_alpha=2*r),autocast_adapter_dtype=(dt=='fp32'))
        if ckpt:
            m.gradient_checkpointing_enable(gradient_checkpointing_kwargs={'use_reentrant':ckpt=='re'})
        if irg if irg is not None else (lora and ckpt=='re'): m.enable_input_require_grads()
        m.train()
        if ddp:
            m=torch.nn.parallel.DistributedDataParallel(m,device_ids=[0],gradient_as_bucket_view=(ddp=='view'))
        ps=[p for p in m.parameters() if p.requires_grad]
        o=torch.optim.AdamW(ps,lr=1e-5,**{'fused':dict(fused=True),'foreach':dict(foreach=True),'loop':dict(foreach=False)}[opt])
        am=None
        if mask:
            am=torch.ones(B,S,dtype=torch.long,device=dev)
            if mask!='ones': am[0,S//2:]=0
        mark('engine')
        from torch.nn.attention import sdpa_kernel,SDPBackend
        for s in range(1,steps+1):
            for k in range(gas):
                cm=sdpa_kernel(getattr(SDPBackend,backend)) if backend else contextlib.nullcontext()
                with cm, torch.autocast('cuda',dtype=torch.bfloat16,enabled=autocast):
                    res=m(input_ids=ids,labels=ids,**({'attention_mask':am} if mask else {}))
                loss=res.loss
                if not keep: del res
                mark(f's{s}m{k}_fwd')
                loss.backward()
                mark(f's{s}m{k}_bwd')
            if clip: torch.nn.utils.clip_grad_norm_(ps,1.0)
            o.step(); o.zero_grad(set_to_none=True)
            mark(f's{s}_step')
    except Exception as e:
        err=repr(e)[:300]; traceback.print_exc()
    tr=torch.cuda.memory._snapshot()['device_traces'][0]
    torch.cuda.memory._record_memory_history(enabled=None)
    live={}; n=0; i=0
    for e in tr:
        while i<len(marks) and e['time_us']>marks[i][1]:
            F.write('P\t'+'\t'.join(map(str,marks[i]))+'\n'); i+=1
        a=e['action']
        if a=='alloc':
            live[e['addr']]=n; F.write(f"a\t{n}\t{e['size']}\t{e['stream']}\n"); n+=1
        elif a=='free_requested': F.write(f"f\t{live.get(e['addr'],-1)}\t{e['size']}\t{e['stream']}\n")
        elif a=='free_completed': live.pop(e['addr'],None)
        else: F.write(f"s\t{a}\t{e['size']}\n")
    while i<len(marks): F.write('P\t'+'\t'.join(map(str,marks[i]))+'\n'); i+=1
    print(name,'base',base,'n',n,err,[ (p[0],p[2],p[3]) for p in marks],flush=True)
    F.write('E\t'+str(err)+'\n')
all7=['q_proj','k_proj','v_proj','o_proj','gate_proj','up_proj','down_proj']; qv=['q_proj','v_proj']
run('b2'); run('b4_s1024',B=4); run('b1_s1024',B=1); run('b3_s777',B=3,S=777)
run('eager',attn='eager',S=512); run('eager_b1',attn='eager',B=1,S=512); run('eager_nonre',attn='eager',S=512,ckpt='nonre'); run('eager_re',attn='eager',S=512,ckpt='re'); run('eager_mask',attn='eager',S=512,mask=True)
run('eager_fp16',attn='eager',S=512,dtype=torch.float16)
run('nonre',ckpt='nonre'); run('re',ckpt='re')
run('mask',mask=True); run('mask_ones',mask='ones'); run('mask_nonre',mask=True,ckpt='nonre'); run('mask_re',mask=True,ckpt='re'); run('mask_s777',B=3,S=777,mask=True)
run('lora_qv',lora=(8,qv,'fp32',0.0)); run('lora_all',lora=(16,all7,'fp32',0.0)); run('lora_all_bf16',lora=(16,all7,'bf16',0.0)); run('lora_all_drop',lora=(16,all7,'fp32',0.05)); run('lora_all_bf16_drop',lora=(16,all7,'bf16',0.05))
run('lora_qv_re',lora=(8,qv,'fp32',0.0),ckpt='re'); run('lora_all_re',lora=(16,all7,'fp32',0.0),ckpt='re'); run('lora_all_nonre',lora=(16,all7,'fp32',0.0),ckpt='nonre'); run('lora_all_nonre_irg',lora=(16,all7,'fp32',0.0),ckpt='nonre',irg=True); run('lora_all_drop_re',lora=(16,all7,'fp32',0.05),ckpt='re')
run('tied',tied=True); run('tied_b4',B=4,tied=True); run('tied_gas',tied=True,gas=2)
run('qwen2',model='qwen2'); run('qwen3',model='qwen3',d=128); run('qwen3_nonre',model='qwen3',d=128,ckpt='nonre'); run('biases',abias=True,mbias=True); run('qwen2_b1',B=1,model='qwen2')
run('flash',backend='FLASH_ATTENTION'); run('efficient',backend='EFFICIENT_ATTENTION'); run('math',backend='MATH',S=512); run('flash_mha',backend='FLASH_ATTENTION',K=16); run('flash_s777',backend='FLASH_ATTENTION',B=3,S=777); run('efficient_mha',backend='EFFICIENT_ATTENTION',K=16)
run('mha128',h=1024,H=8,K=8)
run('foreach',opt='foreach'); run('loop',opt='loop'); run('noclip',clip=False); run('gas2',gas=2); run('gas2_keep',gas=2,keep=True); run('keep',keep=True)
run('autocast',dtype=torch.float32,autocast=True); run('autocast_nonre',dtype=torch.float32,autocast=True,ckpt='nonre'); run('autocast_re',dtype=torch.float32,autocast=True,ckpt='re'); run('fp32',dtype=torch.float32); run('autocast_lora',lora=(16,all7,'fp32',0.0),autocast=True)
run('cast',cast=True); run('fp16',dtype=torch.float16); run('cache',usecache=True)
F.flush()
try:
    import torch.distributed as dist
    os.environ.update(MASTER_ADDR='127.0.0.1',MASTER_PORT='29511',RANK='0',WORLD_SIZE='1')
    dist.init_process_group('nccl',device_id=torch.device('cuda:0'))
    run('ddp',ddp='plain'); run('ddp_view',ddp='view'); run('ddp_gas',ddp='plain',gas=2)
    dist.destroy_process_group()
except Exception as e: traceback.print_exc()
F.close()
