import sys,re
cnt={int(a,16):int(b) for a,b in (l.split() for l in open(sys.argv[1]))}
n=float(sys.argv[3]); tot=0
cur=None; fn={}
out=[]
for l in open(sys.argv[2]):
    m=re.match(r'^([0-9a-f]+) <(.*)>:',l)
    if m: cur=m.group(2); continue
    m=re.match(r'^\s*([0-9a-f]+):\s*(.*)',l)
    if m:
        a=int(m.group(1),16)
        if a in cnt:
            fn[cur]=fn.get(cur,0)+cnt[a]
            out.append((cur,a,cnt[a]/n,m.group(2)))
for k,v in sorted(fn.items(),key=lambda x:-x[1]): print("%8.1f %s"%(v/n,k[:120]))
if len(sys.argv)>4:
    last=None
    for c,a,x,t in out:
        if sys.argv[4] in c or sys.argv[4]=='all':
            if c!=last: print('==',c[:100]); last=c
            print("%x %6.2f %s"%(a,x,t))
