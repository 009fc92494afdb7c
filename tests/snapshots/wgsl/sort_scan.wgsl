var<workgroup> shared_v29: array<u32, 256>;
@group(0) @binding(2) var<storage, read_write> v9: array<u32>;
@group(0) @binding(1) var<storage, read_write> v5: array<u32>;
@group(0) @binding(0) var<storage, read_write> v1: array<u32>;
struct info_st { scalars_usize: array<u32, 4>, static_meta: array<u32, 4> }
@group(0) @binding(3) var<storage, read> info_var: info_st;
@compute @workgroup_size(256, 1, 1)
fn sort_scan(@builtin(local_invocation_index) v111: u32) {
let v114 = &v9;
let v115 = &v5;
let v116 = &v1;
let v3 = u32(0);
let v13 = info_var.scalars_usize[0];
let v14 = info_var.scalars_usize[1];
let v15 = info_var.scalars_usize[2];
let v16 = v13 * v14;
let v112 = v111;
let v18 = u32(v112);
let v19 = u32(256);
let v20 = v16 + v19;
let v21 = u32(1);
let v22 = v20 - v21;
let v24 = v22 / v19;
let v25 = v18 * v24;
let v26 = min(v25, v16);
let v27 = v26 + v24;
let v28 = min(v27, v16);
let v105 = &shared_v29;
let v33 = u32(0);
var<function> v106_store: u32;
let v106 = &v106_store;
*v106 = v33;
for(var v37: u32 = v26; v37 < v28; v37 += v21) {
let v42 = &(*v116)[v37];
let v43 = *v42;
let v44 = *v106;
let v45 = v44 + v43;
*v106 = v45;

}
let v49 = &(*v105)[v18];
let v50 = *v106;
*v49 = v50;
workgroupBarrier();
var<function> v108_store: u32;
let v108 = &v108_store;
*v108 = v33;
for(var v56: u32 = v3; v56 < v18; v56 += v21) {
let v61 = &(*v105)[v56];
let v62 = *v61;
let v63 = *v108;
let v64 = v63 + v62;
*v108 = v64;

}
for(var v66: u32 = v26; v66 < v28; v66 += v21) {
let v71 = &(*v116)[v66];
let v72 = *v71;
let v77 = *v108;
*v71 = v77;
let v78 = v66 % v14;
let v80 = v78 == v3;
if v80 {
let v81 = v66 / v14;
let v85 = &(*v115)[v81];
*v85 = v77;
let v89 = v13 - v21;
let v90 = v81 == v89;
if v90 {
let v91 = u32(v15);
let v93 = v91 - v77;
let v98 = &(*v114)[v3];
*v98 = v93;

}

}
let v100 = v77 + v72;
*v108 = v100;

}
return;

}
