var<workgroup> shared_v11: array<u32, 272>;
@group(0) @binding(0) var<storage, read_write> v1: array<u32>;
struct info_st { scalars_u32: array<u32, 4>, static_meta: array<u32, 2> }
@group(0) @binding(1) var<storage, read> info_var: info_st;
@compute @workgroup_size(256, 1, 1)
fn expert_capacities(@builtin(local_invocation_id) v168: vec3<u32>) {
let v172 = &v1;
let v154 = info_var.static_meta[0];
let v3 = u32(0);
let v6 = info_var.scalars_u32[1];
let v169 = v168[0];
let v10 = u32(v169);
let v155 = &shared_v11;
let v15 = u32(0);
var<function> v156_store: u32;
let v156 = &v156_store;
*v156 = v15;
var<function> v157_store: u32;
let v157 = &v157_store;
*v157 = v15;
let v21 = u32(256);
for(var v22: u32 = v10; v22 < v154; v22 += v21) {
let v28 = &(*v172)[v22];
*v28 = v6;
let v29 = *v156;
*v156 = v29;
let v32 = *v157;
let v33 = u32(1);
let v34 = v32 + v33;
*v157 = v34;

}
let v40 = &(*v155)[v10];
let v41 = *v156;
*v40 = v41;
workgroupBarrier();
let v42 = u32(16);
let v43 = v10 < v42;
if v43 {
let v45 = v10 * v42;
var<function> v159_store: u32;
let v159 = &v159_store;
*v159 = v15;
let v50 = v45 + v42;
let v52 = min(v50, v21);
let v53 = u32(1);
for(var v54: u32 = v45; v54 < v52; v54 += v53) {
let v59 = &(*v155)[v54];
let v60 = *v59;
let v61 = *v159;
let v62 = v61 + v60;
*v159 = v62;

}
let v64 = v21 + v10;
let v68 = &(*v155)[v64];
let v69 = *v159;
*v68 = v69;

}
workgroupBarrier();
var<function> v161_store: u32;
let v161 = &v161_store;
*v161 = v15;
let v75 = u32(1);
for(var v76: u32 = v3; v76 < v42; v76 += v75) {
let v79 = v21 + v76;
let v83 = &(*v155)[v79];
let v84 = *v83;
let v85 = *v161;
let v86 = v85 + v84;
*v161 = v86;

}
let v93 = *v157;
*v40 = v93;
workgroupBarrier();
if v43 {
let v97 = v10 * v42;
var<function> v163_store: u32;
let v163 = &v163_store;
*v163 = v15;
let v102 = v97 + v42;
let v104 = min(v102, v21);
for(var v106: u32 = v97; v106 < v104; v106 += v75) {
let v111 = &(*v155)[v106];
let v112 = *v111;
let v113 = *v163;
let v114 = v113 + v112;
*v163 = v114;

}
let v116 = v21 + v10;
let v120 = &(*v155)[v116];
let v121 = *v163;
*v120 = v121;

}
workgroupBarrier();
var<function> v165_store: u32;
let v165 = &v165_store;
*v165 = v15;
for(var v128: u32 = v3; v128 < v42; v128 += v75) {
let v131 = v21 + v128;
let v135 = &(*v155)[v131];
let v136 = *v135;
let v137 = *v165;
let v138 = v137 + v136;
*v165 = v138;

}
let v139 = *v165;
let v140 = u32(1);
let v141 = max(v139, v140);
let v142 = *v161;
let v143 = v142 / v141;
for(var v145: u32 = v10; v145 < v154; v145 += v21) {
let v150 = &(*v172)[v145];
let v151 = *v150;
let v152 = v151 + v143;
*v150 = v152;

}
return;

}
