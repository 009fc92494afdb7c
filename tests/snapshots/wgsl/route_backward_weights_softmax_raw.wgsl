@group(0) @binding(5) var<storage, read_write> v21: array<vec4<f32>>;
@group(0) @binding(4) var<storage, read> v17: array<f32>;
@group(0) @binding(3) var<storage, read> v13: array<f32>;
@group(0) @binding(2) var<storage, read> v9: array<u32>;
@group(0) @binding(1) var<storage, read> v5: array<vec4<f32>>;
@group(0) @binding(0) var<storage, read> v1: array<vec4<f32>>;
struct info_st { scalars_usize: array<u32, 2>, scalars_f32: array<f32, 2>, static_meta: array<u32, 6> }
@group(0) @binding(6) var<storage, read> info_var: info_st;
@compute @workgroup_size(64, 1, 1)
fn route_backward_weights_softmax_raw(@builtin(workgroup_id) v282: vec3<u32>, @builtin(num_workgroups) v284: vec3<u32>, @builtin(local_invocation_index) v291: u32) {
let v341 = &v21;
let v342 = &v17;
let v343 = &v13;
let v344 = &v9;
let v345 = &v5;
let v346 = &v1;
let v3 = u32(0);
let v137 = info_var.static_meta[5];
let v25 = info_var.scalars_usize[0];
let v26 = info_var.scalars_usize[1];
let v27 = info_var.scalars_f32[0];
let v283 = v282[2];
let v145 = u32(v283);
let v285 = v284[1];
let v147 = u32(v285);
let v148 = v145 * v147;
let v286 = v284[0];
let v150 = u32(v286);
let v151 = v148 * v150;
let v287 = v282[1];
let v153 = u32(v287);
let v156 = v153 * v150;
let v157 = v151 + v156;
let v289 = v282[0];
let v159 = u32(v289);
let v160 = v157 + v159;
let v333 = u32(64);
let v163 = v160 * v333;
let v292 = v291;
let v165 = u32(v292);
let v166 = v163 + v165;
let v31 = v166 < v137;
if v31 {
let v33 = v166 / v25;
let v34 = v33 * v26;
let v36 = v166 % v25;
let v37 = u32(4);
let v38 = v36 * v37;
let v39 = f32(0.0);
let v40 = vec4<f32>(v39);
let v41 = u32(0);
let v42 = vec4<u32>(v41);
var<function> v138_store: vec4<u32>;
let v138 = &v138_store;
*v138 = v42;
var<function> v139_store: vec4<u32>;
let v139 = &v139_store;
let v45 = *v138;
*v139 = v45;
let v46 = *v139;
let v48 = vec4<u32>(v41, v46[1], v46[2], v46[3]);
*v139 = v48;
let v49 = *v139;
let v50 = u32(1);
let v51 = vec4<u32>(v49[0], v50, v49[2], v49[3]);
*v139 = v51;
let v52 = *v139;
let v53 = u32(2);
let v54 = vec4<u32>(v52[0], v52[1], v53, v52[3]);
*v139 = v54;
let v55 = *v139;
let v56 = u32(3);
let v57 = vec4<u32>(v55[0], v55[1], v55[2], v56);
*v139 = v57;
let v58 = u32(v38);
let v59 = vec4<u32>(v58);
let v60 = *v139;
let v61 = v60 + v59;
var<function> v140_store: f32;
let v140 = &v140_store;
*v140 = v39;
var<function> v141_store: vec4<f32>;
let v141 = &v141_store;
*v141 = v40;
var<function> v142_store: vec4<f32>;
let v142 = &v142_store;
*v142 = v40;
let v68 = u32(1);
for(var v69: u32 = v3; v69 < v26; v69 += v68) {
let v71 = v34 + v69;
let v75 = &(*v344)[v71];
let v76 = *v75;
let v78 = v25 * v37;
let v79 = u32(v78);
let v80 = v76 < v79;
if v80 {
let v81 = vec4<u32>(v76);
let v82 = v61 == v81;
let v87 = &(*v343)[v71];
let v88 = *v87;
let v93 = &(*v342)[v71];
let v94 = *v93;
let v95 = *v140;
let v96 = fma(v88, v94, v95);
*v140 = v96;
let v97 = vec4<f32>(v88);
let v98 = *v141;
let v99 = select(v98, v97, v82);
*v141 = v99;
let v100 = vec4<f32>(v94);
let v101 = *v142;
let v102 = select(v101, v100, v82);
*v142 = v102;

}

}
let v113 = &(*v345)[v166];
let v114 = *v113;
let v115 = vec4<f32>(v27);
let v116 = *v142;
let v118 = *v140;
let v119 = vec4<f32>(v118);
let v339 = -v119;
let v340 = fma(v115, v116, v339);
let v121 = v114 * v340;
let v124 = v114 == v40;
let v125 = select(v121, v40, v124);
let v130 = &(*v341)[v166];
*v130 = v125;

}
return;

}
